"""Fonts of this machine for what matplotlib's own font lacks: Chinese, Japanese and Korean."""

import logging
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry

_logger = logging.getLogger(__name__)

_EAST_ASIAN = re.compile(
    r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_FAMILIES = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "PingFang SC"),
    *("Hiragino Sans GB", "Heiti SC", "Noto Sans CJK TC", "Noto Sans CJK JP", "Noto Sans CJK KR"),
    *("Droid Sans Fallback", "AR PL UMing CN", "AR PL UKai CN", "SimSun", "Arial Unicode MS"),
)
"""Those that systems bring, the most legible first."""


def give_fonts(figure: "Figure", path: Path) -> None:
    """Let texts of a picture fall back to a font that has their characters.

    Where no font has them, one line says so. An SVG is left alone: its viewer's fonts draw it.

    Args:
        figure: all of its texts are known.
        path: the picture, for the line.
    """
    from matplotlib.text import Text

    if path.suffix.lower() == ".svg":
        return
    figure.draw_without_rendering()  # labels of axes are made only then
    texts = [text for text in figure.findobj(Text) if _EAST_ASIAN.search(text.get_text())]
    if not texts:
        return
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # some have one weight
    family = east_asian_family()
    if family is None:
        _logger.warning(
            "%s: no font of this machine has Chinese, Japanese or Korean characters, so they are "
            "boxes; the HTML of heedful report and of heedful explain --out FILE.html shows them",
            path,
        )
        return
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), family])


@cache
def east_asian_family() -> str | None:
    """Return a family of fonts with Chinese characters; None if there is none."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    family = _family_of(manager.ttflist)
    if family is None:  # matplotlib remembers what it once found; perhaps one has come since
        known = {font.fname for font in manager.ttflist}
        for path in set(font_manager.findSystemFonts()) - known:
            with suppress(Exception):  # a broken file, by what reads it
                manager.addfont(path)
        family = _family_of(manager.ttflist)
    return family


def _family_of(fonts: "Sequence[FontEntry]") -> str | None:
    installed = {font.name for font in fonts}
    return next((family for family in _FAMILIES if family in installed), None)

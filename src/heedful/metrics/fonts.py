"""Save a figure, with system fonts for scripts that matplotlib's own lacks, such as Chinese."""

import logging
import re
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import join_names
from heedful.files import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry
    from matplotlib.text import Text

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
"""Font families that operating systems ship, most legible first."""


def save_figure(
    figure: "Figure",
    path: Path,
    *,
    dpi: int,
    bbox_inches: str | None = None,
    pad_inches: float | None = None,
) -> None:
    """Save a figure. Equal figures give equal files, and the text of an SVG stays text.

    Args:
        figure: the figure.
        path: a ``.png`` or ``.svg`` file. An existing file is replaced only once the new one is
            complete.
        dpi: see ``Figure.savefig``.
        bbox_inches: see ``Figure.savefig``.
        pad_inches: see ``Figure.savefig``.
    """
    import matplotlib as mpl

    suffix = path.suffix[1:].lower()
    with (
        mpl.rc_context({"svg.hashsalt": "heedful", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # A PNG gets a warning of its own; the viewer of an SVG has its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        add_fallback_fonts(figure, path)
        with new_file(path, overwrite=True) as partial:
            figure.savefig(
                partial,
                format=suffix,
                dpi=dpi,
                bbox_inches=bbox_inches,
                pad_inches=pad_inches,
                metadata={"Date": None} if suffix == "svg" else None,
            )


def add_fallback_fonts(figure: "Figure", path: Path) -> None:
    """Add a fallback font to the East Asian texts of a figure.

    Logs one warning naming the characters that no font has. Does nothing for an SVG, which is drawn
    with the viewer's fonts.

    Args:
        figure: the figure, with all of its texts.
        path: the picture file; the warning names it.
    """
    from matplotlib.text import Text

    if path.suffix.lower() == ".svg":
        return
    figure.draw_without_rendering()  # creates the axis labels
    texts: list[Text] = figure.findobj(Text)
    east_asian = [text for text in texts if _EAST_ASIAN.search(text.get_text())]
    if east_asian and (family := east_asian_family()) is not None:
        # Some families have only one weight: silence the warnings about that.
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
        for text in east_asian:
            text.set_fontfamily([*text.get_fontfamily(), family])
    if lacking := _missing_characters(texts):
        _logger.warning(
            "%s: no installed font has %s, so boxes are drawn; the HTML of heedful report and of "
            "heedful "
            "explain --out FILE.html shows all characters",
            path,
            join_names(lacking),
        )


def _missing_characters(texts: "Sequence[Text]") -> list[str]:
    """Return the characters that have no glyph in any font of their text."""
    from matplotlib import font_manager

    glyphs = {}
    for family in {family for text in texts for family in text.get_fontfamily()}:
        file = font_manager.findfont(font_manager.FontProperties(family=[family]))
        glyphs[family] = font_manager.get_font(file).get_charmap().keys()
    return sorted(
        {
            character
            for text in texts
            for character in text.get_text()
            if character.isprintable()
            and not any(ord(character) in glyphs[family] for family in text.get_fontfamily())
        }
    )


@cache
def east_asian_family() -> str | None:
    """Return an installed font family with Chinese characters, or None."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    family = _family_of(manager.ttflist)
    if family is None:  # matplotlib caches its font list; a font may have been installed since
        known_paths = {font.fname for font in manager.ttflist}
        for path in set(font_manager.findSystemFonts()) - known_paths:
            with suppress(Exception):  # a broken font file; the exception depends on its reader
                manager.addfont(path)
        family = _family_of(manager.ttflist)
    return family


def _family_of(fonts: "Sequence[FontEntry]") -> str | None:
    installed = {font.name for font in fonts}
    return next((family for family in _FAMILIES if family in installed), None)

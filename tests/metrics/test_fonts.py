"""Glyphs of Chinese labels in plots, and tables that align in a terminal."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from heedful.metrics import fonts
from heedful.metrics.fonts import add_fallback_fonts, east_asian_family
from heedful.metrics.pictures import save_confusion_picture
from heedful.metrics.tables import confusion_table

NAMES = ["财经", "科技新闻", "x"]
SCORES = {
    "items": 6,
    "accuracy": 0.5,
    "per_class": [{"label": name, "support": 2} for name in NAMES],
    "confusion": [[1, 1, 0], [0, 1, 1], [1, 0, 1]],
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    east_asian_family.cache_clear()


def drawn_families(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[list[str]]:
    families: list[list[str]] = []

    def spy(figure: Any, name: Path) -> None:
        from matplotlib.text import Text

        add_fallback_fonts(figure, name)
        families.extend(
            text.get_fontfamily() for text in figure.findobj(Text) if "科技" in text.get_text()
        )

    monkeypatch.setattr("heedful.metrics.fonts.add_fallback_fonts", spy)
    save_confusion_picture(SCORES, path)
    return families


def test_chinese_labels_get_a_font_that_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("matplotlib")
    # A family that matplotlib brings stands for one that has the characters.
    monkeypatch.setattr(fonts, "_FAMILIES", ("No Such Font", "STIXGeneral", "DejaVu Serif"))
    monkeypatch.setattr(fonts, "_missing_characters", lambda texts: [])
    east_asian_family.cache_clear()
    families = drawn_families(monkeypatch, tmp_path / "a.png")
    assert families
    assert all(one == ["sans-serif", "STIXGeneral"] for one in families)
    assert not [one for one in caplog.records if one.name == fonts.__name__]


def test_one_line_where_no_font_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(fonts, "_FAMILIES", ("No Such Font",))
    east_asian_family.cache_clear()
    with caplog.at_level(logging.WARNING):
        save_confusion_picture(SCORES, tmp_path / "a.png")
        save_confusion_picture(SCORES, tmp_path / "a.svg")
    (line,) = [one.getMessage() for one in caplog.records if one.name == fonts.__name__]
    assert line.startswith(f"{tmp_path / 'a.png'}: no installed font has 技, 新, 科, 经, 财")
    assert "\n" not in line
    assert "科技新闻" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_characters_of_other_scripts_that_no_font_has_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("matplotlib")
    labels = {"财经": "caf\u00e9", "科技新闻": "a\u200db", "x": "\U000f0000\u0e44\u0e17\u0e22"}
    rows = [{**row, "label": labels[row["label"]]} for row in SCORES["per_class"]]  # type: ignore[attr-defined]
    save_confusion_picture({**SCORES, "per_class": rows}, tmp_path / "a.png")
    (line,) = [one.getMessage() for one in caplog.records if one.name == fonts.__name__]
    assert "has \u0e17, \u0e22, \u0e44, so boxes are drawn" in line


def test_a_font_that_came_later_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    manager = pytest.importorskip("matplotlib.font_manager")
    wanted = next(font for font in manager.fontManager.ttflist if font.name == "STIXGeneral")
    others = [font for font in manager.fontManager.ttflist if font.name != "STIXGeneral"]
    monkeypatch.setattr(manager.fontManager, "ttflist", others)
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(manager, "findSystemFonts", lambda: [str(broken), wanted.fname])
    monkeypatch.setattr(fonts, "_FAMILIES", ("STIXGeneral",))
    east_asian_family.cache_clear()
    assert east_asian_family() == "STIXGeneral"


def test_tables_align_full_width_characters() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(confusion_table(SCORES))
    lines = [line.rstrip("\n") for line in stream.getvalue().splitlines() if line.strip()]
    ends = [cell_len(line.rstrip()) for line in lines]
    assert len(set(ends)) == 1, stream.getvalue()
    assert len({len(line.rstrip()) for line in lines}) > 1

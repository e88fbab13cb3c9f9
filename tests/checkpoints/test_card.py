"""The model card shows names that users chose, but never interprets them as markup."""

from html import unescape
from pathlib import Path
from re import findall
from typing import Any

import pytest
from markdown_it import MarkdownIt

from heedful.checkpoints.card import write_card
from heedful.checkpoints.runs import RunRecord

NAME = "<b>*my*|_own_</b> [a](http://x) `c` &amp; \\| snake_case ~~no~~"


def test_marks_of_markdown_in_names_are_shown(tmp_path: Path) -> None:
    record = RunRecord(
        task="classify",
        settings={"train": [NAME, "two.csv"], "text": f"a\n{NAME}", "label": None},
        data=[{"file": NAME, "bytes": 1, "sha256": "0"}],
        teacher={"file": NAME, "bytes": 1, "sha256": "0"},
        goal={},
        versions={},
        max_length=8,
    )
    write_card(tmp_path, record, purpose=f"Sorts texts:\n\n# {NAME}.", example="text")
    page = (
        MarkdownIt()
        .enable(["table", "strikethrough"])
        .render((tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8"))
    )
    assert f"Sorts texts: # {NAME}." in unescape(page)
    assert {*findall(r"<(\w+)", page)} == {
        *("h1", "h2", "p", "pre", "code", "ul", "li"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    cells = [unescape(cell) for cell in findall(r"<td>(.*)</td>", page)]
    assert cells == ["train", f"{NAME}, two.csv", "text", f"a {NAME}"]
    assert unescape(page).count(f"{NAME}: 1 bytes") == 1
    assert unescape(page).count(f"answers of a teacher: {NAME}, 1 bytes") == 1


@pytest.mark.parametrize(
    ("task", "goal", "said"),
    [
        ("classify", {}, "longer texts are read in windows by default"),
        ("generate", {"pairs": True}, "longer texts are read in windows by default"),
        ("generate", {"pairs": False}, "a longer text to continue is cut at its start"),
        ("pretrain", {"objective": "mlm"}, "longer texts are read in windows by default"),
        ("pretrain", {"objective": "clm"}, "a longer text to continue is cut at its start"),
        ("translate", {"longest": 9}, "longer texts are translated sentence by sentence"),
    ],
)
def test_what_happens_to_longer_texts(
    tmp_path: Path, task: str, goal: dict[str, Any], said: str
) -> None:
    record = RunRecord(task=task, settings={}, data=[], goal=goal, versions={}, max_length=8)
    write_card(tmp_path, record, purpose="Does it.", example="text")
    assert f"It reads 8 tokens at once; {said}." in (tmp_path / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"model": "minilm"}, "| model | minilm |"),
        ({"model": "mine", "preset": "tiny"}, "| model | mine |"),
        ({"model": "minilm", "preset": "tiny"}, None),
    ],
)
def test_a_run_from_scratch_has_no_model(
    tmp_path: Path, settings: dict[str, Any], row: str | None
) -> None:
    record = RunRecord(
        task="pretrain", settings=settings, data=[], goal={}, versions={}, max_length=8
    )
    write_card(tmp_path, record, purpose="Does it.", example="text")
    card = (tmp_path / "MODEL_CARD.md").read_text()
    assert row in card if row else "| model |" not in card


def test_the_steps_that_were_taken(tmp_path: Path) -> None:
    record = RunRecord(task="embed", settings={}, data=[], goal={}, versions={}, max_length=8)
    write_card(tmp_path, record, purpose="Does it.", example="text", trained="Trained for 3 steps.")
    card = (tmp_path / "MODEL_CARD.md").read_text()
    assert "## Settings\n\nTrained for 3 steps.\n\n| setting |" in card

"""The model card shows names that users chose, but never interprets them as markup."""

from html import unescape
from pathlib import Path
from re import findall

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

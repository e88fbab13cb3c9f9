"""Links in the documentation lead somewhere, and its commands are valid."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from heedful.cli import app

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
# The site checks the links of its own pages, when it is built.
OUTSIDE_THE_SITE = [
    ROOT / file for file in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md")
]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as on GitHub and on the site."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", OUTSIDE_THE_SITE, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target), f"{name(page)}: no heading for {link}"


def commands(page: str) -> Iterator[list[str]]:
    """Yield the arguments of each heedful command in a code block."""
    text = page.replace("\\\n", " ")
    for line in re.findall(r"^    (?:\$ )?heedful (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        if "..." not in words:
            yield words[
                : next((n for n, word in enumerate(words) if word in ("<", ">", "|")), None)
            ]


def test_command_lines_are_taken_apart() -> None:
    page = (
        'text\n    heedful train a \\\n        --b "c d"  # e\n    $ heedful predict r < in > out\n'
    )
    assert list(commands(page)) == [["train", "a", "--b", "c d"], ["predict", "r"]]


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=name)
def test_commands_are_understood(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        if "--config" in words:  # a file may give what is missing here
            continue
        app.parse_args(words, exit_on_error=False, print_error=False)

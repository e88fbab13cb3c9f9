"""The Chinese pages match the English ones in headings, commands, numbers and links."""

import re
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ROOT / "docs", ROOT / "docs" / "zh"
README = ROOT / "README.zh-CN.md"
PAGES = [README, *sorted(CHINESE.glob("*.md"))]
# Long measurements, and what is made from the code.
IN_ENGLISH_ALONE = {
    *("benchmarks", "performance"),
    *("commands", "reference", "reference-models", "family"),
}
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass
class Section:
    """The parts of a section that do not depend on the language."""

    level: str
    blocks: list[str] = field(default_factory=list)
    """Code, but for the comments at the ends of its lines."""
    rows: list[int] = field(default_factory=list)
    """How many cells each row of a table has."""
    code: Counter[str] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)


def english(page: Path) -> Path:
    """Return the English page of a page, which may be the page itself."""
    if page == README:
        return ROOT / "README.md"
    return ENGLISH / page.name if page.parent == CHINESE else page


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> list[str]:
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def target(link: str, page: Path) -> str:
    """Return the target of a link, the same in both languages."""
    if "://" in link:
        return link
    path, _, anchor = unquote(link).partition("#")
    other = (page.parent / path).resolve() if path else page
    chinese = README if other == ROOT / "README.md" else CHINESE / other.name
    if page.parent == CHINESE or page == README:
        back = other == english(page)
        assert back or other.parent != ENGLISH or not chinese.exists(), (
            f"{name(page)}: {link} could lead to {name(chinese)}"
        )
    # A heading that is made from the code has its English name in both.
    headings = anchors(other) if anchor else []
    heading = headings.index(anchor) if anchor in headings else anchor
    return f"{name(english(other))}#{heading}"


def sections(text: str, page: Path) -> list[Section]:
    """Return the sections of a page, including the one before its first heading."""
    result = [Section("")]
    for token in MARKDOWN.parse(text):
        section = result[-1]
        if token.type == "heading_open":
            result.append(Section(token.tag))
        elif token.type in ("fence", "code_block") and token.info != "{toctree}":
            lines = [re.sub(r"\s{2,}#.*", "", line) for line in token.content.split("\n")]
            section.blocks.append("\n".join([token.info, *lines]))
        elif token.type == "tr_open":
            section.rows.append(0)
        elif token.type in ("td_open", "th_open"):
            section.rows[-1] += 1
        for part in token.children or ():
            if part.type == "code_inline":
                section.code[part.content] += 1
            elif part.type == "text":
                section.numbers.update(re.findall(r"\d(?:[\d,.]*\d)?", part.content))
            elif part.type in ("link_open", "image"):
                section.links[target(str(part.attrs.get("href", part.attrs.get("src"))), page)] += 1
    return result


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_chinese_page_keeps_step(page: Path) -> None:
    original = english(page)
    ours, theirs = (sections(one.read_text("utf-8"), one) for one in (page, original))
    assert [one.level for one in ours] == [one.level for one in theirs], "headings differ"
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    for title, chinese, first in zip(["", *titles], ours, theirs, strict=True):
        for one in fields(Section):
            pair = getattr(chinese, one.name), getattr(first, one.name)
            where = f"{name(page)}, '{title}': {one.name} of {name(original)}"
            if isinstance(pair[0], Counter):
                assert not pair[1] - pair[0], f"{where} are missing"
                assert not pair[0] - pair[1], f"{where} are gone"
            assert pair[0] == pair[1], f"{where} have changed"


def test_every_page_is_there_in_chinese_or_named() -> None:
    pages = {page.stem for page in ENGLISH.glob("*.md")}
    assert pages - {page.stem for page in CHINESE.glob("*.md")} == IN_ENGLISH_ALONE
    assert not {page.stem for page in CHINESE.glob("*.md")} - pages


def test_what_differs_is_seen() -> None:
    page = ENGLISH / "page.md"
    text = (
        "# A\n\n`--b` is 3, [see](#the-page).\n\n    run 1  # why\n\n| a | b |\n|-|-|\n| 4 | 5 |\n"
    )
    (_, one) = sections(text, page)
    assert one == Section(
        "h1",
        ["\nrun 1\n"],
        [2, 2],
        Counter(["--b"]),
        Counter("345"),
        Counter(["docs/page.md#0"]),
    )
    for old, new in [("--b", "--c"), ("3", "4"), ("#the-page", "chinese.md"), ("run 1", "run 2")]:
        assert sections(text.replace(old, new), page)[1] != one

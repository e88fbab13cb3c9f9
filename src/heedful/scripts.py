"""Characters of scripts without spaces between words: Chinese and Japanese.

When a text is split or its lines are joined, the script at the boundary decides whether there is a
space. Korean separates its words with spaces, so it is treated like other languages.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

KANA = r"\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"
"""Hiragana and katakana, including half-width and historic characters."""
HAN = r"\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u31c0-\u31ef\u3400-\u4dbf\u4e00-\u9fff" + (
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Ideographs, with their radicals and strokes."""
HANGUL = r"\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Korean syllables and their component letters."""
WIDE_MARKS = r"\u3001-\u3004\u3008-\u301f\u3030-\u303f\u30a0\u30fb\ufe10-\ufe19\ufe30-\ufe4f" + (
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
"""Full-width punctuation of these scripts, whose width includes the space."""

UNSPACED = KANA + HAN + WIDE_MARKS
"""All of these, for use in a character class of a regular expression."""

_BEFORE = re.compile(rf"[{UNSPACED}][^\w\s]*\Z")
_AFTER = re.compile(rf"[^\w\s]*[{UNSPACED}]")
_WIDE = re.compile(f"[{WIDE_MARKS}]")
_SPACED = re.compile(
    rf"[{UNSPACED}][^\w\s]*(?: [^\w\s]+)* (?=[{UNSPACED}])|(?<=[{WIDE_MARKS}]) | (?=[{WIDE_MARKS}])"
)
_WORDS = re.compile(rf"(?P<unspaced>[{HAN}{KANA}])|[^\W\d_{HAN}{KANA}]+")
_KANA = re.compile(f"[{KANA}]")
_LINE_END = re.compile(r"[\r\n]+")
_SEAM = 16
"""Number of characters on each side of a boundary that can matter: a letter and its marks."""


def space_between(before: str, after: str) -> str:
    """Return the separator for joining two texts: a space or the empty string.

    It is empty if either text is empty, if both sides are Chinese or Japanese, or next to a
    full-width mark. Marks that other languages also use, such as quotes, are skipped.
    """
    before, after = before[-_SEAM:], after[:_SEAM]
    if not before or not after or _WIDE.match(before[-1]) or _WIDE.match(after[0]):
        return ""
    return "" if _BEFORE.search(before) and _AFTER.match(after) else " "


def join(parts: Iterable[str]) -> str:
    """Join consecutive texts, with the separators that `space_between` returns."""
    parts = list(parts)
    separated = (f"{space_between(before, after)}{after}" for before, after in pairwise(parts))
    return "".join([*parts[:1], *separated])


def on_one_line(text: str) -> str:
    """Return a text with a space in place of its line breaks; other spaces stay."""
    return _LINE_END.sub(" ", text)


def remove_extra_spaces(text: str) -> str:
    """Remove spaces between words where `join` would put none."""
    return _SPACED.sub(lambda match: match.group().replace(" ", ""), text)


def is_unspaced(text: str) -> bool:
    """Return whether a text is Chinese or Japanese.

    It must have at least as many Chinese or Japanese characters as words of other scripts.
    """
    unspaced = [match["unspaced"] is not None for match in _WORDS.finditer(text)]
    return bool(unspaced) and 2 * sum(unspaced) >= len(unspaced)


def has_kana(text: str) -> bool:
    """Return whether a Chinese or Japanese text is Japanese: at least a tenth of it is kana."""
    unspaced = [match["unspaced"] for match in _WORDS.finditer(text) if match["unspaced"]]
    return 10 * sum(_KANA.match(char) is not None for char in unspaced) >= len(unspaced) > 0

"""Which characters belong to scripts that put no space between words: Chinese and Japanese.

Where a text is cut or its lines are joined, the script at the seam says whether a space was there.
Korean separates its words, and so is like other languages here.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

KANA = r"\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"
"""Hiragana and katakana, of half width and historic ones, too."""
HAN = r"\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u31c0-\u31ef\u3400-\u4dbf\u4e00-\u9fff" + (
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Ideographs, with their radicals and strokes."""
HANGUL = r"\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Syllables of Korean, and the letters that they are made of."""
WIDE_MARKS = r"\u3001-\u3004\u3008-\u301f\u3030-\u303f\u30a0\u30fb\ufe10-\ufe19\ufe30-\ufe4f" + (
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
"""Punctuation that only these scripts use: it is as wide as an ideograph, its space included."""

UNSPACED = KANA + HAN + WIDE_MARKS
"""All of them, as what stands between the brackets of a regular expression."""

_BEFORE = re.compile(rf"[{UNSPACED}][^\w\s]*\Z")
_AFTER = re.compile(rf"[^\w\s]*[{UNSPACED}]")
_WIDE = re.compile(f"[{WIDE_MARKS}]")
_SPACED = re.compile(
    rf"[{UNSPACED}][^\w\s]*(?: [^\w\s]+)* (?=[{UNSPACED}])|(?<=[{WIDE_MARKS}]) | (?=[{WIDE_MARKS}])"
)
_WORDS = re.compile(rf"(?P<unspaced>[{HAN}{KANA}])|[^\W\d_{HAN}{KANA}]+")
_KANA = re.compile(f"[{KANA}]")
_SEAM = 16
"""Characters on each side of a seam that can decide: the last letter and the marks behind it."""


def space_between(before: str, after: str) -> str:
    """Return what stands between two texts that are joined: a space, or nothing.

    Nothing does if either text is empty, if both sides are Chinese or Japanese (marks that other
    languages use as well, such as quotes, are passed over), and beside a full-width mark.
    """
    before, after = before[-_SEAM:], after[:_SEAM]
    if not before or not after or _WIDE.match(before[-1]) or _WIDE.match(after[0]):
        return ""
    return "" if _BEFORE.search(before) and _AFTER.match(after) else " "


def join(parts: Iterable[str]) -> str:
    """Join texts that follow one another, each seam as `space_between` says."""
    parts = list(parts)
    seams = (f"{space_between(before, after)}{after}" for before, after in pairwise(parts))
    return "".join([*parts[:1], *seams])


def close_up(text: str) -> str:
    """Drop the spaces of a text whose words were joined by them, where none was; see `join`."""
    return _SPACED.sub(lambda match: match.group().replace(" ", ""), text)


def is_unspaced(text: str) -> bool:
    """Tell whether a text is Chinese or Japanese: no less of such characters than other words."""
    unspaced = [match["unspaced"] is not None for match in _WORDS.finditer(text)]
    return bool(unspaced) and 2 * sum(unspaced) >= len(unspaced)


def has_kana(text: str) -> bool:
    """Tell whether a Chinese or Japanese text is Japanese: a tenth of its characters are kana."""
    unspaced = [match["unspaced"] for match in _WORDS.finditer(text) if match["unspaced"]]
    return 10 * sum(_KANA.match(one) is not None for one in unspaced) >= len(unspaced) > 0

r"""Split documents into sentences with a simple language-independent rule.

Pre-training splits a text between thoughts. A missed or surplus split does no harm. So this module
needs no list of abbreviations and no model, only this rule:

- A blank line ends a sentence. A line break inside a paragraph becomes a space, or nothing between
  Chinese or Japanese characters.
- ``. ! ? …`` and similar marks of other scripts, with the closing quotes and brackets after them,
  end a sentence if a space follows and the next character is not a lowercase letter.
- ``。！？；`` and similar marks, which no space follows, always end a sentence, with the closing
  quotes and brackets after them. So do ``. ! ? …`` between two Chinese or Japanese characters.
- A single full stop after a capitalised word of up to three letters (``Mr.``, ``J.``) does not end
  a sentence.

The rule ``line`` is for texts with one sentence per line.
"""

import re
from typing import Literal

from heedful.scripts import HAN, KANA, join, space_between

SentenceRule = Literal["punctuation", "line"]

_MARKS = "[.!?…‽؟۔।॥။។៕]"
_CLOSING = r"""["'”’»›)\]}_*]"""
_NARROW_END = (
    # Followed by a space. Possessive, so that the regex tries a long run of marks only once.
    rf"(?<!{_MARKS}){_MARKS}++{_CLOSING}*+(?=\s)"
)
_WIDE_CLOSING = r"[」』”’）】》〉〕］｝｣〗〙〞〟)\]}]"
_WIDE_NEXT = f"[{HAN}{KANA}「『“‘（【《〈〔［｛｢〖〝]"
_WIDE_END = (
    # A full stop between digits is a decimal point.
    rf"(?:[。｡！？；]|(?<!\d)．|．(?!\d))[。｡！？；．…]*+{_WIDE_CLOSING}*+"
    rf"|(?<=[{HAN}{KANA}])[.!?…]++{_WIDE_CLOSING}*+(?={_WIDE_NEXT})"
)
_END = re.compile(f"{_NARROW_END}|(?P<wide>{_WIDE_END})")
_SHORT_WORD = re.compile(r"(?:^|[^\w])([^\W\d_]{1,3})\.$")
_PARAGRAPHS = re.compile(r"\n\s*\n")


def split_sentences(text: str, rule: SentenceRule = "punctuation") -> list[str]:
    """Split a document into non-empty sentences, each with its leading space.

    The first sentence of a line or paragraph also has one. The document's first sentence has none.

    Args:
        text: a document, with its line breaks.
        rule: how to detect sentence ends; see the module.
    """
    if rule == "line":
        parts = [[line] for line in map(str.strip, text.split("\n")) if line]
    else:
        paragraphs = [_in_one_line(paragraph) for paragraph in _PARAGRAPHS.split(text)]
        parts = [_of_paragraph(paragraph) for paragraph in paragraphs if paragraph]
    running: list[str] = []
    for first, *others in parts:
        separator = space_between(running[-1], first) if running else ""
        running += [f"{separator}{first}", *others]
    return running


def _in_one_line(paragraph: str) -> str:
    lines = (" ".join(line.split()) for line in paragraph.split("\n"))
    return join(line for line in lines if line)


def _of_paragraph(text: str) -> list[str]:
    sentences = []
    start = num_quotes = counted_up_to = 0
    for match in _END.finditer(text):
        end = match.end()
        if match["wide"]:
            num_quotes, counted_up_to = num_quotes + text.count('"', counted_up_to, end), end
            end += text.startswith('"', end) and num_quotes % 2  # a closing quote
        elif text[end : end + 2].strip()[:1].islower() or _is_abbreviation(
            text, match.start(), match.group()
        ):
            continue
        sentences.append(text[start:end])
        start = end
    return [*sentences, text[start:]] if start < len(text) else sentences


def _is_abbreviation(text: str, start: int, mark: str) -> bool:
    """Return whether a mark is the full stop of a short capitalised word."""
    word = _SHORT_WORD.search(text, max(start - 4, 0), start + 1) if mark == "." else None
    return word is not None and word[1][0].isupper()

r"""Documents to sentences by a simple rule that knows no language.

Pre-training needs places where a text can be cut so that what follows is another thought; a missed
or a surplus one does no harm. So there are no lists of abbreviations and no model, but this rule:

- A blank line ends a sentence; a line break inside a paragraph is a space.
- ``. ! ? …`` and their kin of other scripts, with the quotes and brackets that close after them,
  end a sentence where a space follows, and then something other than a small letter.
- ``。！？`` and their kin, which no space follows, end one wherever they stand.
- One full stop after a capitalised word of up to three letters (``Mr.``, ``J.``) ends none.

Where each line of a text is a sentence already, the rule ``line`` takes it so.
"""

import re
from typing import Literal

SentenceRule = Literal["punctuation", "line"]

_MARKS = "[.!?…‽؟۔।॥။។៕]"
_CLOSING = r"""["'”’»›)\]}_*]"""
_END = re.compile(
    # Followed by a space. Each run of marks is tried from its start alone: however long, but once.
    rf"(?<!{_MARKS}){_MARKS}++{_CLOSING}*+(?=\s)"
    r"|[。｡！？．]+[」』”’）】》〉]*"  # not followed by one
)
_SHORT_WORD = re.compile(r"(?:^|[^\w])([^\W\d_]{1,3})\.$")
_PARAGRAPHS = re.compile(r"\n\s*\n")


def split_sentences(text: str, rule: SentenceRule = "punctuation") -> list[str]:
    """Split a document into its sentences, none of them empty.

    Args:
        text: a document, its lines ended by line breaks.
        rule: how sentences are told; see the module.
    """
    return [sentence.strip() for sentence in running_sentences(text, rule)]


def running_sentences(text: str, rule: SentenceRule = "punctuation") -> list[str]:
    """Split a document into its sentences, each with the space before it if there is any.

    There is one before the first of a line or a paragraph, too, but not of the document.
    """
    if rule == "line":
        parts = [[line] for line in map(str.strip, text.split("\n")) if line]
    else:
        paragraphs = [" ".join(paragraph.split()) for paragraph in _PARAGRAPHS.split(text)]
        parts = [_of_paragraph(paragraph) for paragraph in paragraphs if paragraph]
    return [
        f" {sentence}" if number and not place else sentence
        for number, sentences in enumerate(parts)
        for place, sentence in enumerate(sentences)
    ]


def _of_paragraph(text: str) -> list[str]:
    sentences = []
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        follows = text[end : end + 2].strip()
        if follows[:1].islower() or _is_abbreviation(text, match.start(), match.group()):
            continue
        sentences.append(text[start:end])
        start = end
    return [*sentences, text[start:]] if start < len(text) else sentences


def _is_abbreviation(text: str, place: int, mark: str) -> bool:
    """Tell whether a mark is the full stop of a short capitalised word."""
    word = _SHORT_WORD.search(text, max(place - 4, 0), place + 1) if mark == "." else None
    return word is not None and word[1][0].isupper()

"""Where the words of a text stand, for pictures and links that are drawn by words."""

from collections.abc import Iterator, Sequence

from heedful.batches.segments import go_on, is_chinese, load_segmenter
from heedful.tokens.normalize import Normalizer

_WORDS = Normalizer(
    lower_case=False, strip_accents=False, split_ideographs=True, never_split=()
).sourced_words

Span = tuple[int, int]
"""Where a piece or a word starts and ends in a text, in characters."""


def word_spans(text: str, *, whole: bool = False) -> list[Span]:
    """Return where the words of a text are: between spaces, punctuation marks and ideographs.

    Args:
        text: the text.
        whole: take the words of Chinese as a segmenter tells them, not character by character.
            It tells none of a text with kana, which is Japanese.

    Raises:
        UserError: the segmenter is asked for, and is not installed.
    """
    spans = [(positions[0], positions[-1] + 1) for _, positions in _WORDS(text)]
    if not whole or not is_chinese(text):
        return spans
    words: list[Span] = []
    inside = go_on(text, spans, load_segmenter()(text))
    for (start, end), goes_on in zip(spans, inside, strict=True):
        if goes_on and words and words[-1][1] == start:
            words[-1] = (words[-1][0], end)
        else:
            words.append((start, end))
    return words


def word_numbers(
    parts: Sequence[Sequence[Span]], words: Sequence[Span]
) -> Iterator[list[int | None]]:
    """Yield the number of the word that each piece of a part starts in, if it is in one."""
    number = 0
    for pieces in parts:
        numbers: list[int | None] = []
        for begin, end in pieces:
            while number < len(words) and words[number][1] <= begin:
                number += 1
            inside = number < len(words) and words[number][0] < end
            numbers.append(number if inside else None)
        yield numbers

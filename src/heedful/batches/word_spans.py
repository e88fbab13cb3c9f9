"""Word spans of a text, for word-level visualizations and alignments."""

from collections.abc import Iterator, Sequence

from heedful.batches.segments import continuation_mask, is_chinese, load_segmenter
from heedful.tokens.normalize import Normalizer

_WORDS = Normalizer(
    lower_case=False, strip_accents=False, split_ideographs=True, never_split=()
).sourced_words

Span = tuple[int, int]
"""Start and end of a piece or word in a text, in characters."""


def word_spans(text: str, *, whole: bool = False) -> list[Span]:
    """Return the spans of a text's words, split at spaces, punctuation and ideographs.

    Args:
        text: the text.
        whole: whether to use a segmenter's words for Chinese text, not single characters. Text with
            kana is Japanese and is not segmented.

    Raises:
        UserError: the segmenter is needed but not installed.
    """
    spans = [(positions[0], positions[-1] + 1) for _, positions in _WORDS(text)]
    if not whole or not is_chinese(text):
        return spans
    words: list[Span] = []
    continues_word = continuation_mask(text, spans, load_segmenter()(text))
    for (start, end), continues in zip(spans, continues_word, strict=True):
        if continues and words and words[-1][1] == start:
            words[-1] = (words[-1][0], end)
        else:
            words.append((start, end))
    return words


def word_numbers(
    parts: Sequence[Sequence[Span]], words: Sequence[Span]
) -> Iterator[list[int | None]]:
    """Yield the word index of each piece of each part; None for a piece outside all words."""
    index = 0
    for pieces in parts:
        word_indices: list[int | None] = []
        for begin, end in pieces:
            while index < len(words) and words[index][1] <= begin:
                index += 1
            inside = index < len(words) and words[index][0] < end
            word_indices.append(index if inside else None)
        yield word_indices

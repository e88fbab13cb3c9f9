"""Words among the pieces that a model reads: where each piece's word stands, and what it was given.

Shapes: N pieces of a text, W its words, T tokens of an example with its special tokens, L numbers
that a model gives each token.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.reading.tagging import Entity, TaggedText, Word
from heedful.tokens import Tokenizer
from heedful.tokens.characters import IDEOGRAPHS, MARKS, PUNCTUATION

WordRule = Literal["tokenizer", "spaces"]
"""What a word is. ``tokenizer``: what the tokenizer splits a text into, at spaces, punctuation and
ideographs. ``spaces``: what stands between spaces, less the marks that `word_breaks` sets apart."""

Aggregation = Literal["first", "average", "max"]
"""How a word gets its numbers: its first piece's, the mean of its pieces', or those of the piece
whose largest number is the largest."""

Spans = NDArray[np.int32]
"""Start and end, in characters of a text: shape (..., 2)."""

_APART = re.compile(
    # A web address, which is one word.
    r"https?://[!-~]*[0-9A-Za-z/]"
    # Marks; but those of @ann_b, #tag, US$, 5%, C++, AT&T and U.S.-led are part of the word.
    rf"|((?![-#$%&+.@_])[{PUNCTUATION.ranges()}])\1*|\.\.+|--+"
    rf"|[{IDEOGRAPHS.ranges()}]|\s+"
)


def word_breaks(text: str) -> list[int]:
    """Return where words begin and end by the rule ``spaces``, in order, with some places twice.

    Several of the same mark are one word.
    """
    breaks = [0]
    for apart in _APART.finditer(text):
        breaks += [*_last_stop(text, breaks[-1], apart.start()), *apart.span()]
    return [*breaks, *_last_stop(text, breaks[-1], len(text)), len(text)]


def _last_stop(text: str, start: int, end: int) -> list[int]:
    """Return where the full stop stands that ends what stands between two places, if one does."""
    return [end - 1] if text.endswith(".", start, end) else []


def piece_words(text: str, tokenizer: Tokenizer) -> tuple[list[int], Spans]:
    """Return the ids of a text's pieces, and for each piece where its word stands in the text.

    Words are those that the tokenizer splits the text into, at spaces, punctuation and ideographs.
    Of characters that it drops none is a word, nor is white space.

    Shape:
        N ids, and (N, 2) start and end.
    """
    pieces = tokenizer.pieces(text)
    if not pieces.ids:
        return [], np.empty((0, 2), dtype=np.int32)
    places = np.array(pieces.offsets, dtype=np.int32)  # (N, 2)
    number = np.array(pieces.words)
    of_words = np.array([bool(text[start:end].strip()) for start, end in pieces.offsets])
    if not of_words.any():
        return [], np.empty((0, 2), dtype=np.int32)
    if not of_words.all():
        owners = _owners(of_words)
        places, number = places[owners], number[owners]
    first = _changes(number)  # (W,)
    starts = np.minimum.reduceat(places[:, 0], first)
    ends = np.maximum.reduceat(places[:, 1], first)
    if not text.isascii():
        limits = [*starts[1:].tolist(), len(text)]
        ends[:] = [_past_marks(text, *span) for span in zip(ends.tolist(), limits, strict=True)]
    counts = _ends(first, len(number)) - first
    return pieces.ids, np.repeat(np.stack([starts, ends], axis=1), counts, axis=0)


def _owners(of_words: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each piece which piece of a word it goes with: itself, if it is of a word.

    White space goes with what is before it, or at the start of a text with what follows.
    """
    owners = np.maximum.accumulate(np.where(of_words, np.arange(len(of_words)), 0))
    return np.maximum(owners, of_words.argmax())


def spaced_words(text: str, places: Spans) -> Spans:
    """Put the tokenizer's words together to words by the rule ``spaces``. Shapes: (N, 2)."""
    number = np.searchsorted(word_breaks(text), places[:, 0], side="right")  # (N,)
    first = _changes(number)  # (W,)
    counts = _ends(first, len(number)) - first
    ends = places[first + counts - 1, 1]  # (W,)
    return np.repeat(np.stack([places[first, 0], ends], axis=1), counts, axis=0)


def _past_marks(text: str, end: int, limit: int) -> int:
    """Move the end of a word past accents that the tokenizer dropped: they belong to its letter."""
    while end < limit and ord(text[end]) in MARKS:
        end += 1
    return end


def first_pieces(places: Spans) -> NDArray[np.int64]:
    """Return the number of each word's first piece. Shapes: (N, 2) to (W,)."""
    return _changes(places[:, 0])  # no two words start at one place


def _changes(values: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places of values that differ from the one before, the first among them."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def _ends(first: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return where the words end that begin at some places. Shapes: (W,) to (W,)."""
    ends = np.empty_like(first)
    ends[:-1] = first[1:]
    ends[-1:] = length
    return ends


def entities_in_words(record: TaggedText, words: Spans) -> list[Entity]:
    """Return a record's entities in words; one that begins or ends inside a word has it whole.

    Args:
        record: with entities.
        words: where the words stand that the tokenizer does not drop. Shape (W, 2).

    Raises:
        UserError: two entities have a word in common.
    """
    found: list[Entity] = []
    for entity in record.entities or ():
        begin = int(np.searchsorted(words[:, 1], entity.start, side="right"))
        end = int(np.searchsorted(words[:, 0], entity.end, side="left"))
        if found and begin < found[-1].end:
            start, stop = words[begin].tolist()
            raise UserError(
                f"{record.source}, line {record.line_of(entity)}: two entities, the second "
                f"{record.text[entity.start : entity.end]!r}, share the word "
                f"{record.text[start:stop]!r}; a word has one tag"
            )
        if begin < end:  # else the tokenizer drops all its characters
            found.append(Entity(begin, end, entity.label))
    return found


def first_inside(outer: Sequence[Word], inner: Sequence[Word]) -> dict[Word, Word]:
    """Return the first word of ``inner`` in each of ``outer`` that has any; both are in order."""
    found: dict[Word, Word] = {}
    for start, end in outer:
        at = bisect_left(inner, (start,))
        if at < len(inner) and inner[at][0] < end:
            found[start, end] = inner[at]
    return found


def word_values(
    places: Sequence[Spans], values: Sequence[NDArray[np.floating]], aggregation: Aggregation
) -> dict[Word, NDArray[np.floating]]:
    """Return what each word of a text was given, in the order of the text.

    A word that stands in several examples is taken from the one in which it has most tokens on the
    side where it has fewer.

    Args:
        places: of each example, where the word of each token stands; (-1, -1) for special tokens,
            which stand at both ends. Each of shape (T, 2).
        values: of each example, what each token was given. Each of shape (T or more, L).
        aggregation: how a word gets its numbers from its pieces.

    Shape:
        (L,) for each word.
    """
    best: dict[Word, tuple[int, NDArray[np.floating]]] = {}
    for example, rows in zip(places, values, strict=True):
        inside = np.flatnonzero(example[:, 0] >= 0)
        inner = example[inside]
        begins = first_pieces(inner)  # (W,)
        ends = _ends(begins, len(inner))
        contexts = np.minimum(begins, len(inner) - ends).tolist()
        words = _aggregated(rows[inside], begins, ends, aggregation)
        for (start, stop), context, row in zip(
            inner[begins].tolist(), contexts, words, strict=True
        ):
            # Where examples tie, the first has the word's first piece, and a later may not.
            if (start, stop) not in best or context > best[start, stop][0]:
                best[start, stop] = context, row
    return {word: best[word][1] for word in sorted(best)}


def _aggregated(
    given: NDArray[np.floating],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    aggregation: Aggregation,
) -> NDArray[np.floating]:
    """Return what each word is given: of pieces, shape (N, L), to shape (W, L)."""
    if aggregation == "average":
        mean: NDArray[np.floating] = np.add.reduceat(given, begins) / (ends - begins)[:, None]
        return mean
    if aggregation == "max":
        tops = given.max(axis=1)
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        begins = np.array([begin + tops[begin:end].argmax() for begin, end in spans], np.int64)
    return given[begins]

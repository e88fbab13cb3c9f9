"""Words and the pieces that a model reads: the word of each piece, and the probabilities of words.

Shapes: N pieces of a text, W its words, T tokens of an example with its special tokens, L labels.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.reading.tagging import Entity, TaggedText, Word
from heedful.scripts import HANGUL, KANA
from heedful.tokens import Tokenizer
from heedful.tokens.characters import IDEOGRAPHS, PUNCTUATION
from heedful.tokens.clusters import ACCENTS

WordRule = Literal["tokenizer", "spaces", "pieces"]
"""How to split a text into words. ``tokenizer``: as the tokenizer does, at spaces, punctuation and
ideographs. ``spaces``: at spaces, and at the marks where `word_breaks` splits. ``pieces``: each
piece of the tokenizer is a word."""

Aggregation = Literal["first", "average", "max"]
"""How a word gets its probabilities: from its first piece, as the mean of its pieces, or from the
piece with the highest probability."""

Spans = NDArray[np.int32]
"""Start and end, in characters of a text: shape (..., 2)."""

_APART = re.compile(
    # A web address, which is one word.
    r"https?://[!-~]*[0-9A-Za-z/]"
    # Marks, but not those of @ann_b, #tag, US$, 5%, C++, AT&T and U.S.-led, which are in the word.
    rf"|((?![-#$%&+.@_])[{PUNCTUATION.ranges()}])\1*|\.\.+|--+"
    rf"|[{IDEOGRAPHS.ranges()}]|\s+"
)

_SPLIT = re.compile(rf"[{PUNCTUATION.ranges()}{IDEOGRAPHS.ranges()}\s]")
_IDEOGRAPH = re.compile(rf"[{IDEOGRAPHS.ranges()}]")
_WITH_PARTICLES = re.compile(f"[{KANA}{HANGUL}]")


def word_breaks(text: str) -> list[int]:
    """Return where words begin and end by the rule ``spaces``, in order, some offsets twice.

    The same mark several times in a row is one word.
    """
    breaks = [0]
    apart = [match.span() for match in _APART.finditer(text)]
    for start, end in (*apart, (len(text), len(text))):
        if text.endswith(".", breaks[-1], start):  # a full stop that ends what stands between
            breaks.append(start - 1)
        breaks += start, end
    return breaks


def in_one_word(text: str, end: int, start: int) -> bool:
    """Tell whether a tokenizer takes what ends at one offset and what starts at another as one."""
    return _SPLIT.search(text, end - 1, start + 1) is None


def before_particle(text: str, at: int) -> bool:
    """Tell whether an offset is in a word of kana or Hangul.

    There a particle follows a name, and a tokenizer takes both as one: ソニーは, 서울에서.
    """
    inside = 0 < at < len(text) and in_one_word(text, at, at)
    return inside and _WITH_PARTICLES.search(text, at - 1, at + 1) is not None


def piece_words(
    text: str, tokenizer: Tokenizer, rule: WordRule = "tokenizer"
) -> tuple[list[int], Spans]:
    """Return the ids of a text's pieces, and for each piece the span of its word in the text.

    Words are those that the tokenizer splits the text into, at spaces, punctuation and ideographs;
    by the rule ``pieces`` its pieces, of which those that share a character are one. White space
    and characters that the tokenizer drops are not words.

    Shape:
        N ids, and (N, 2) start and end.
    """
    pieces = tokenizer.pieces(text)
    spans = past_spaces(text, pieces.offsets)  # (N, 2)
    if rule == "pieces":
        apart = spans[1:, 0] >= np.maximum.accumulate(spans[:-1, 1])  # (N - 1,)
        number = np.concatenate([[0], apart.cumsum()])
    else:
        number = np.array(pieces.words, dtype=np.int64)
        if tokenizer.words_at_spaces:
            number = _split_words(text, spans, number, _SPLIT)
        elif _IDEOGRAPH.search(text):  # of which byte-level tokenizers take many as one word
            number = _split_words(text, spans, number, _IDEOGRAPH)
    of_words = spans[:, 0] < spans[:, 1]  # (N,), the rest is white space
    if not of_words.any():
        return [], np.empty((0, 2), dtype=np.int32)
    if not of_words.all():
        owners = _owners(of_words)
        spans, number = spans[owners], number[owners]
    first = _changes(number)  # (W,)
    starts = np.minimum.reduceat(spans[:, 0], first)
    ends = np.maximum.reduceat(spans[:, 1], first)
    counts = _ends(first, len(number)) - first
    words = past_marks(text, _paired(starts, ends))
    return pieces.ids, np.repeat(words, counts, axis=0)


def past_spaces(text: str, offsets: Sequence[tuple[int, int]]) -> Spans:
    """Return the slices of pieces without the space that stands before a word in some of them.

    Shape:
        (N, 2) for N pieces.
    """
    trimmed = [(end - len(text[start:end].lstrip()), end) for start, end in offsets]
    return np.array(trimmed, dtype=np.int32).reshape(-1, 2)


def past_marks(text: str, spans: Spans) -> Spans:
    """Return slices with the accents behind them that the tokenizer dropped, which belong to them.

    Some tokenizers drop all marks, also vowel signs that take room, as in हिन्दी.

    Args:
        text: what they are slices of.
        spans: in order. One reaches to the start of the next one at most.

    Shape:
        (N, 2) for (N, 2).
    """
    if text.isascii():
        return spans
    limits = np.append(spans[1:, 0], len(text))  # (N,)
    spans = spans.copy()
    for index in np.flatnonzero(spans[:, 1] < limits).tolist():
        end, limit = int(spans[index, 1]), int(limits[index])
        while end < limit and _is_mark(text[end]):
            end += 1
        spans[index, 1] = end
    return spans


def _is_mark(character: str) -> bool:
    """Tell whether a character is an accent, also such as those of half-width kana (ﾞ and ﾟ)."""
    return all(ord(part) in ACCENTS for part in unicodedata.normalize("NFKD", character))


def _split_words(
    text: str, spans: Spans, number: NDArray[np.int64], at: re.Pattern[str]
) -> NDArray[np.int64]:
    """Number words anew that are split where a character is on either side, too. Shapes: (N,).

    Pieces that share a character are of one word: a space that no text has stands where the word
    behind it begins.
    """
    changes = number[1:] != number[:-1]
    seams = zip(spans[:-1, 1].tolist(), spans[1:, 0].tolist(), strict=True)
    for index, (end, start) in enumerate(seams):
        if 0 < end <= start and not changes[index]:
            changes[index] = at.search(text, end - 1, start + 1) is not None
    return np.concatenate([[0], changes.cumsum()])


def _owners(of_words: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each piece the index of a piece of its word: itself, unless it is white space.

    White space belongs to the word before it, or at the start of a text to the first word.
    """
    owners = np.maximum.accumulate(np.where(of_words, np.arange(len(of_words)), 0))
    return np.maximum(owners, of_words.argmax())


def spaced_words(text: str, spans: Spans) -> Spans:
    """Join the tokenizer's words to words by the rule ``spaces``. Shapes: (N, 2)."""
    number = np.searchsorted(word_breaks(text), spans[:, 0], side="right")  # (N,)
    first = _changes(number)  # (W,)
    counts = _ends(first, len(number)) - first
    ends = spans[first + counts - 1, 1]  # (W,)
    return np.repeat(_paired(spans[first, 0], ends), counts, axis=0)


def _paired(starts: NDArray[np.int32], ends: NDArray[np.int32]) -> Spans:
    """Return starts and ends as spans. Shapes: (N,) to (N, 2)."""
    spans = np.empty((len(starts), 2), dtype=np.int32)
    spans[:, 0], spans[:, 1] = starts, ends
    return spans


def first_pieces(spans: Spans) -> NDArray[np.int64]:
    """Return the index of each word's first piece. Shapes: (N, 2) to (W,)."""
    return _changes(spans[:, 0])  # no two words start at the same offset


def _changes(numbers: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the indices of numbers that differ from the one before; 0 is always among them."""
    changed = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changed[1:])
    return changed.nonzero()[0]


def _ends(first: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return where each word ends, from where each begins. Shapes: (W,) to (W,)."""
    ends = np.empty_like(first)
    ends[:-1], ends[-1:] = first[1:], length
    return ends


def entities_in_words(record: TaggedText, words: Spans) -> list[Entity]:
    """Return a record's entities in words; a word is in an entity if any part of it is.

    Args:
        record: a text with entities.
        words: the spans of its words, without those that the tokenizer drops. Shape (W, 2).

    Raises:
        UserError: two entities have a word in common.
    """
    entities: list[Entity] = []
    for entity in record.entities or ():
        begin = int(np.searchsorted(words[:, 1], entity.start, side="right"))
        end = int(np.searchsorted(words[:, 0], entity.end, side="left"))
        if entities and begin < entities[-1].end:
            start, stop = words[begin].tolist()
            raise UserError(
                f"{record.source}, line {record.line_of(entity)}: two entities, the second "
                f"{record.text[entity.start : entity.end]!r}, share the word "
                f"{record.text[start:stop]!r}; a word has one tag"
            )
        if begin < end:  # else the tokenizer drops all its characters
            entities.append(Entity(begin, end, entity.label))
    return entities


def first_inside(outer: Sequence[Word], inner: Sequence[Word]) -> dict[Word, Word]:
    """Map each word of ``outer`` to the first word of ``inner`` in it; both are in order.

    Words of ``outer`` that share one of ``inner``, as the characters of a Latin word in a column of
    characters do, become one.
    """
    firsts: dict[Word, Word] = {}
    for start, end in outer:
        index = bisect_left(inner, (start,))
        if index < len(inner) and inner[index][0] < end:
            firsts[start, end] = inner[index]
        elif firsts and index and inner[index - 1][1] > start:
            (first, _), word = firsts.popitem()
            firsts[first, end] = word
    return firsts


def word_probabilities(
    spans: Sequence[Spans], probabilities: Sequence[NDArray[np.floating]], aggregation: Aggregation
) -> dict[Word, NDArray[np.floating]]:
    """Return the probabilities of each word of a text, in the order of the text.

    A word that is in several examples is taken from the one where it has the most context: where
    the fewer of the tokens on its two sides are the most.

    Args:
        spans: for each example, the span of each token's word; (-1, -1) for special tokens, which
            are at both ends. Each of shape (T, 2).
        probabilities: for each example, those of each token. Each of shape (T or more, L).
        aggregation: how a word gets its probabilities from its pieces.

    Shape:
        (L,) for each word.
    """
    best: dict[Word, tuple[int, NDArray[np.floating]]] = {}
    for example, rows in zip(spans, probabilities, strict=True):
        inside = (example[:, 0] >= 0).nonzero()[0]
        inner = example[inside]
        begins = first_pieces(inner)  # (W,)
        ends = _ends(begins, len(inner))
        tagged = _aggregated(rows[inside], begins, ends, aggregation)
        words = [(start, stop) for start, stop in inner[begins].tolist()]
        if len(spans) == 1:
            return dict(zip(words, tagged, strict=True))
        contexts = np.minimum(begins, len(inner) - ends).tolist()
        for word, context, row in zip(words, contexts, tagged, strict=True):
            # In a tie, the first example has the word's first piece; a later one may not have it.
            if word not in best or context > best[word][0]:
                best[word] = context, row
    return {word: best[word][1] for word in sorted(best)}


def _aggregated(
    rows: NDArray[np.floating],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    aggregation: Aggregation,
) -> NDArray[np.floating]:
    """Return the probabilities of words from those of pieces. Shapes: (N, L) to (W, L)."""
    if aggregation == "average":
        mean: NDArray[np.floating] = np.add.reduceat(rows, begins) / (ends - begins)[:, None]
        return mean
    if aggregation == "max":
        tops = rows.max(axis=1)
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        begins = np.array([begin + tops[begin:end].argmax() for begin, end in spans], np.int64)
    return rows[begins]

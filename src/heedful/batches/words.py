"""Map the tokenizer's pieces to words, and aggregate piece probabilities to word probabilities.

Shapes: N pieces of a text, W words of a text, T tokens of an example with special tokens, L labels.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
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
"""How to split a text into words. ``tokenizer``: like the tokenizer, at spaces, punctuation and
ideographs. ``spaces``: at spaces and at the punctuation where `word_breaks` splits. ``pieces``:
each piece of the tokenizer is a word."""

Aggregation = Literal["first", "average", "max"]
"""How to aggregate probabilities of a word's pieces: take the first piece, the mean of all pieces,
or the piece with the highest probability."""

Spans = NDArray[np.int32]
"""Start and end, in characters of a text. Shape (..., 2)."""

_SEPARATORS = re.compile(
    # A URL, which is one word.
    r"https?://[!-~]*[0-9A-Za-z/]"
    # Punctuation, except inside words such as @ann_b, #tag, US$, 5%, C++, AT&T and U.S.-led.
    rf"|((?![-#$%&+.@_])[{PUNCTUATION.ranges()}])\1*|\.\.+|--+"
    rf"|[{IDEOGRAPHS.ranges()}]|\s+"
)

_SPLIT = re.compile(rf"[{PUNCTUATION.ranges()}{IDEOGRAPHS.ranges()}\s]")
_IDEOGRAPH = re.compile(rf"[{IDEOGRAPHS.ranges()}]")
_PARTICLE_SCRIPTS = re.compile(f"[{KANA}{HANGUL}]")


def word_breaks(text: str) -> list[int]:
    """Return word boundaries by the rule ``spaces``, in order; some offsets appear twice.

    A run of the same punctuation mark is one word.
    """
    breaks = [0]
    separators = [match.span() for match in _SEPARATORS.finditer(text)]
    for start, end in (*separators, (len(text), len(text))):
        if text.endswith(".", breaks[-1], start):  # a full stop after the text in between
            breaks.append(start - 1)
        breaks += start, end
    return breaks


def in_one_word(text: str, end: int, start: int) -> bool:
    """Return whether a tokenizer joins text ending at ``end`` and text starting at ``start``."""
    return _SPLIT.search(text, end - 1, start + 1) is None


def before_particle(text: str, at: int) -> bool:
    """Return whether an offset is inside a word of kana or Hangul.

    In such words, a particle follows a name without a space, so a tokenizer takes both as one
    word: ソニーは, 서울에서.
    """
    inside = 0 < at < len(text) and in_one_word(text, at, at)
    return inside and _PARTICLE_SCRIPTS.search(text, at - 1, at + 1) is not None


def piece_words(
    text: str, tokenizer: Tokenizer, rule: WordRule = "tokenizer"
) -> tuple[list[int], Spans]:
    """Return the ids of a text's pieces, and for each piece the span of its word in the text.

    The words are the tokenizer's words, split at spaces, punctuation and ideographs. By the rule
    ``pieces``, each piece is a word, and pieces that share a character are one word. White space
    and characters that the tokenizer drops are not words.

    Shape:
        N ids, and (N, 2) start and end.
    """
    pieces = tokenizer.pieces(text)
    spans = strip_spaces(text, pieces.offsets)  # (N, 2)
    if rule == "pieces":
        begins_word = spans[1:, 0] >= np.maximum.accumulate(spans[:-1, 1])  # (N - 1,)
        word_indices = np.concatenate([[0], begins_word.cumsum()])
    else:
        word_indices = np.array(pieces.words, dtype=np.int64)
        if tokenizer.words_at_spaces:
            word_indices = _split_words(text, spans, word_indices, _SPLIT)
        elif _IDEOGRAPH.search(text):  # byte-level tokenizers take several ideographs as one word
            word_indices = _split_words(text, spans, word_indices, _IDEOGRAPH)
    of_words = spans[:, 0] < spans[:, 1]  # (N,), False = white space
    if not of_words.any():
        return [], np.empty((0, 2), dtype=np.int32)
    if not of_words.all():
        owners = _owners(of_words)
        spans, word_indices = spans[owners], word_indices[owners]
    first = _changes(word_indices)  # (W,)
    starts = np.minimum.reduceat(spans[:, 0], first)
    ends = np.maximum.reduceat(spans[:, 1], first)
    counts = _ends(first, len(word_indices)) - first
    words = extend_over_accents(text, _paired(starts, ends))
    return pieces.ids, np.repeat(words, counts, axis=0)


def strip_spaces(text: str, offsets: Sequence[tuple[int, int]]) -> Spans:
    """Return the spans of pieces without their leading spaces.

    Shape:
        (N, 2) for N pieces.
    """
    trimmed = [(end - len(text[start:end].lstrip()), end) for start, end in offsets]
    return np.array(trimmed, dtype=np.int32).reshape(-1, 2)


def extend_over_accents(text: str, spans: Spans) -> Spans:
    """Extend spans to include following accents that the tokenizer dropped.

    Some tokenizers drop all combining marks, including spacing vowel signs, as in हिन्दी.

    Args:
        text: the text of the spans.
        spans: spans in order. Each extends at most to the start of the next span.

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
    """Return whether a character is an accent, including half-width kana marks (ﾞ and ﾟ)."""
    return all(ord(part) in ACCENTS for part in unicodedata.normalize("NFKD", character))


def _split_words(
    text: str, spans: Spans, word_indices: NDArray[np.int64], pattern: re.Pattern[str]
) -> NDArray[np.int64]:
    """Renumber words after also splitting next to characters matching ``pattern``. Shapes: (N,).

    Pieces that share a character belong to one word. The piece of a space that is not in the text
    starts at the next word.
    """
    ends = np.maximum.accumulate(spans[:-1, 1])  # (N - 1,)
    changes = (word_indices[1:] != word_indices[:-1]) & (spans[1:, 0] >= ends)
    seams = zip(ends.tolist(), spans[1:, 0].tolist(), strict=True)
    for index, (end, start) in enumerate(seams):
        if 0 < end <= start and not changes[index]:
            changes[index] = pattern.search(text, end - 1, start + 1) is not None
    return np.concatenate([[0], changes.cumsum()])


def _owners(of_words: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the index of the piece that determines each piece's word.

    That is the piece itself, unless it is white space. White space belongs to the word before it,
    or to the first word at the start of a text.
    """
    owners = np.maximum.accumulate(np.where(of_words, np.arange(len(of_words)), 0))
    return np.maximum(owners, of_words.argmax())


def spaced_words(text: str, spans: Spans) -> Spans:
    """Merge the tokenizer's words into words by the rule ``spaces``. Shapes: (N, 2)."""
    word_indices = np.searchsorted(word_breaks(text), spans[:, 0], side="right")  # (N,)
    first = _changes(word_indices)  # (W,)
    counts = _ends(first, len(word_indices)) - first
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
    """Return the indices where a number differs from its predecessor; always includes 0."""
    changed = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changed[1:])
    return changed.nonzero()[0]


def _ends(first: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return the end of each word from the first piece of each word. Shapes: (W,) to (W,)."""
    ends = np.empty_like(first)
    ends[:-1], ends[-1:] = first[1:], length
    return ends


def entities_in_words(record: TaggedText, words: Spans) -> list[Entity]:
    """Return a record's entities in word indices. An entity includes each word it overlaps.

    A word that two entities share belongs to the first.

    Args:
        record: a text with entities.
        words: the spans of its words, without words that the tokenizer drops. Shape (W, 2).
    """
    entities: list[Entity] = []
    free = 0
    for entity in record.entities or ():
        begin = max(int(np.searchsorted(words[:, 1], entity.start, side="right")), free)
        end = int(np.searchsorted(words[:, 0], entity.end, side="left"))
        if begin < end:  # else it has no word of its own, or the tokenizer drops its characters
            entities.append(Entity(begin, end, entity.label))
            free = end
    return entities


def refuse_shared_words(record: TaggedText, tokenizer: Tokenizer, rule: WordRule) -> TaggedText:
    """Return a record whose entities share no word, as training needs.

    Raises:
        UserError: two entities share a word.
    """
    close = [
        (first, second)
        for first, second in pairwise(record.entities or ())
        if not re.search(r"\s", record.text[first.end : second.start])
    ]
    words = piece_words(record.text, tokenizer, rule)[1] if close else np.empty((0, 2), np.int32)
    for first, second in close:
        shared = words[(words[:, 0] < first.end) & (words[:, 1] > second.start)]
        for start, end in shared[:1].tolist():
            raise UserError(
                f"{record.source}, line {record.line_of(second)}: two entities, the second "
                f"{record.text[second.start : second.end]!r}, share the word "
                f"{record.text[start:end]!r}; a word has one tag"
            )
    return record


def first_inside(outer: Sequence[Word], inner: Sequence[Word]) -> dict[Word, Word]:
    """Map each word of ``outer`` to the first word of ``inner`` inside it; both are in order.

    Words of ``outer`` that share a word of ``inner`` are merged. This happens to the characters of
    a Latin word in a column of characters.
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
    """Return the probabilities of each word of a text, in text order.

    A word in several examples is taken from the example where it has the most context. Its context
    is the smaller of the token counts on its two sides.

    Args:
        spans: for each example, the span of each token's word; (-1, -1) for special tokens, which
            are at both ends. Each of shape (T, 2).
        probabilities: token probabilities of each example. Each of shape (T or more, L).
        aggregation: how to aggregate the probabilities of a word's pieces.

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
            # In a tie, keep the first example: a later one may lack the word's first piece.
            if word not in best or context > best[word][0]:
                best[word] = context, row
    return {word: best[word][1] for word in sorted(best)}


def _aggregated(
    rows: NDArray[np.floating],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    aggregation: Aggregation,
) -> NDArray[np.floating]:
    """Aggregate piece probabilities to word probabilities. Shapes: (N, L) to (W, L)."""
    if aggregation == "average":
        mean: NDArray[np.floating] = np.add.reduceat(rows, begins) / (ends - begins)[:, None]
        return mean
    if aggregation == "max":
        tops = rows.max(axis=1)
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        begins = np.array([begin + tops[begin:end].argmax() for begin, end in spans], np.int64)
    return rows[begins]

"""Map the tokenizer's pieces to words, and aggregate piece probabilities to word probabilities.

Shapes: N pieces of a text, W words of a text, T tokens of an example with special tokens, L labels.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.batches.text_block import IDEOGRAPH, SPACE, WORD_ENDS, TextBlock
from heedful.errors import UserError
from heedful.reading.tagging import Entity, TaggedText, Word
from heedful.scripts import HANGUL, KANA
from heedful.tokens import Tokenizer
from heedful.tokens.characters import IDEOGRAPHS, PUNCTUATION
from heedful.tokens.clusters import ACCENTS
from heedful.tokens.replacements import codes_of

WordRule = Literal["tokenizer", "spaces", "pieces"]
"""How to split a text into words. ``tokenizer``: like the tokenizer, at spaces, punctuation and
ideographs. ``spaces``: at spaces and at the punctuation where `word_breaks` splits. ``pieces``:
each piece of the tokenizer is a word."""

Aggregation = Literal["first", "average", "max"]
"""How to aggregate probabilities of a word's pieces: take the first piece, the mean of all pieces,
or the piece with the highest probability."""

Spans = NDArray[np.int32]
"""Start and end, in characters of a text. Shape (..., 2)."""

_SPLIT = re.compile(rf"[{PUNCTUATION.ranges()}{IDEOGRAPHS.ranges()}\s]")
_PARTICLE_SCRIPTS = re.compile(f"[{KANA}{HANGUL}]")


class PieceWords(NamedTuple):
    """The N pieces of a text and their words."""

    ids: NDArray[np.int32]
    """(N,) Token ids."""
    split: Spans
    """(N, 2) The span of the tokenizer's word of each piece."""
    words: Spans
    """(N, 2) The span of each piece's word by the rule."""


def word_breaks(text: str) -> set[int]:
    """Return the word boundaries of a text by the rule ``spaces``.

    A run of the same punctuation mark is one word.
    """
    block = TextBlock([text])
    return {0, len(text), *(np.flatnonzero(block.breaks()) - block.starts[0]).tolist()}


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
    texts: Sequence[str], tokenizer: Tokenizer, rule: WordRule = "tokenizer"
) -> list[PieceWords]:
    """Return the pieces of each text, and the span of each piece's word in its text.

    The tokenizer's words are split at spaces, punctuation and ideographs. By the rule ``pieces``,
    each piece is a word, and pieces that share a character are one word. White space and characters
    that the tokenizer drops are not words. A text without words has no pieces.
    """
    pieces, block = tokenizer.located_batch(texts), TextBlock(texts)
    sizes = np.diff(pieces.bounds)  # (R,)
    text_starts = np.repeat(block.starts, sizes)  # (N,)
    begins_text = np.zeros(len(text_starts), np.bool_)
    begins_text[pieces.bounds[:-1][sizes > 0]] = True
    spans = _paired(pieces.begins + text_starts, pieces.ends + text_starts)
    spans = _without_leading_spaces(block, spans)
    # Pieces that share a character belong to one word.
    begins_word = spans[:, 0] >= _ends_before(spans)
    if rule != "pieces":
        begins_word &= pieces.begins_word
        classes = WORD_ENDS if tokenizer.words_at_spaces else IDEOGRAPH
        begins_word |= _follows(block, spans, text_starts, np.repeat(block.ends, sizes), classes)
    begins_word |= begins_text
    of_words = spans[:, 0] < spans[:, 1]  # (N,), False = white space
    if not of_words.all():
        spans, begins_word = _with_white_space(spans, begins_word, begins_text, of_words)
    split = _merged(spans, begins_word, block.text)
    words = _spaced_words(block, split, begins_text) if rule == "spaces" else split
    shifts = text_starts.astype(np.int32)[:, None]
    columns = pieces.ids.astype(np.int32), split - shifts, words - shifts
    words_before = np.concatenate([[0], of_words.cumsum()])[pieces.bounds]  # (R + 1,)
    ends = np.where(words_before[1:] > words_before[:-1], pieces.bounds[1:], pieces.bounds[:-1])
    return [
        PieceWords(*(column[start:end] for column in columns))
        for start, end in zip(pieces.bounds.tolist(), ends.tolist(), strict=False)
    ]


def strip_spaces(text: str, offsets: Sequence[tuple[int, int]]) -> Spans:
    """Return the spans of pieces without their leading spaces.

    Shape:
        (N, 2) for N pieces.
    """
    block, spans = TextBlock([text]), np.array(offsets, np.int32).reshape(-1, 2)
    shift = block.starts.astype(np.int32)
    return _without_leading_spaces(block, spans + shift) - shift


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
    gaps = np.flatnonzero(spans[:, 1] < limits)
    following = codes_of(text)[spans[gaps, 1]]
    marks = [code for code in np.unique(following).tolist() if _is_mark(chr(code))]
    spans = spans.copy()
    for index in gaps[np.isin(following, marks)].tolist():
        end, limit = int(spans[index, 1]), int(limits[index])
        while end < limit and _is_mark(text[end]):
            end += 1
        spans[index, 1] = end
    return spans


def _is_mark(character: str) -> bool:
    """Return whether a character is an accent, including half-width kana marks (ﾞ and ﾟ)."""
    return all(ord(part) in ACCENTS for part in unicodedata.normalize("NFKD", character))


def _without_leading_spaces(block: TextBlock, spans: Spans) -> Spans:
    """Remove the leading spaces of spans in a block. Shapes: (N, 2)."""
    begins, ends = spans[:, 0], spans[:, 1]
    if not ((block.classes[begins] & SPACE > 0) & (begins < ends)).any():
        return spans
    return _paired(np.minimum(block.next_characters()[begins], ends), ends)


def _ends_before(spans: Spans) -> NDArray[np.int32]:
    """Return the largest end of the pieces before each piece; 0 for the first. Shapes: (N,)."""
    ends = np.zeros(len(spans), np.int32)
    np.maximum.accumulate(spans[:-1, 1], out=ends[1:])
    return ends


def _follows(
    block: TextBlock,
    spans: Spans,
    text_starts: NDArray[np.int64],
    text_ends: NDArray[np.int64],
    classes: int,
) -> NDArray[np.bool_]:
    """Return whether a character of some classes is between a piece and those before it.

    The last character before and the first character of the piece count, too. Pieces that share a
    character have none between them. The piece of a space that is not in the text starts at the
    next word.

    Shape:
        (N,); `spans` is of shape (N, 2), and the start and end of the text of each piece of (N,).
    """
    counts, ends = block.count_before(classes), _ends_before(spans)
    between = counts[np.minimum(spans[:, 0] + 1, text_ends)] > counts[np.maximum(ends - 1, 0)]
    follows: NDArray[np.bool_] = between & (text_starts < ends) & (ends <= spans[:, 0])
    return follows


def _with_white_space(
    spans: Spans,
    begins_word: NDArray[np.bool_],
    begins_text: NDArray[np.bool_],
    of_words: NDArray[np.bool_],
) -> tuple[Spans, NDArray[np.bool_]]:
    """Add the pieces of white space to the words, and return all spans and where words begin.

    White space belongs to the word before it, or to the first word of the text. Shapes: (N, 2) for
    spans, else (N,).
    """
    indices, size = np.arange(len(spans)), len(spans)
    text_indices = begins_text.cumsum()
    before = np.maximum.accumulate(np.where(of_words, indices, -1))
    after = np.minimum.accumulate(np.where(of_words, indices, size - 1)[::-1])[::-1]
    owners = np.where(text_indices[before] == text_indices, before, after)
    owners[before < 0] = after[before < 0]
    # A text of white space only has no words, so its pieces keep their own spans.
    owners = np.where(text_indices[owners] == text_indices, owners, indices)
    begins_word = _changes(begins_word.cumsum()[owners]) | begins_text
    return spans[owners], begins_word


def _merged(spans: Spans, begins_word: NDArray[np.bool_], text: str) -> Spans:
    """Return the span of each piece's word, with its accents. Shapes: (N, 2)."""
    first = begins_word.nonzero()[0]  # (W,)
    starts, ends = spans[:, 0], spans[:, 1]
    words = _paired(np.minimum.reduceat(starts, first), np.maximum.reduceat(ends, first))
    return np.repeat(extend_over_accents(text, words), np.diff(first, append=len(spans)), axis=0)


def _spaced_words(block: TextBlock, split: Spans, begins_text: NDArray[np.bool_]) -> Spans:
    """Merge the tokenizer's words into words by the rule ``spaces``. Shapes: (N, 2)."""
    word_indices = block.breaks().cumsum()[split[:, 0]]  # (N,)
    first = (_changes(word_indices) | begins_text).nonzero()[0]  # (W,)
    counts = np.diff(first, append=len(split))
    ends = split[first + counts - 1, 1]  # (W,)
    return np.repeat(_paired(split[first, 0], ends), counts, axis=0)


def _paired(starts: NDArray[np.integer], ends: NDArray[np.integer]) -> Spans:
    """Return starts and ends as spans. Shapes: (N,) to (N, 2)."""
    spans = np.empty((len(starts), 2), dtype=np.int32)
    spans[:, 0], spans[:, 1] = starts, ends
    return spans


def first_pieces(spans: Spans) -> NDArray[np.int64]:
    """Return the index of each word's first piece. Shapes: (N, 2) to (W,)."""
    return _changes(spans[:, 0]).nonzero()[0]  # no two words start at the same offset


def _changes(numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether each number differs from its predecessor; True for the first. Shapes: (N,)."""
    changed = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changed[1:])
    return changed


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
    if not close:
        return record
    words = piece_words([record.text], tokenizer, rule)[0].split
    for first, second in close:
        shared = words[(words[:, 0] < first.end) & (words[:, 1] > second.start)]
        for start, end in shared[:1].tolist():
            raise UserError(
                f"{record.where_of(second)}: two entities, the second "
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

"""Encode many texts with array operations, which split and look up all words in a batch.

The results equal those of the plain encoders, which handle chunks with anything unusual, such as a
long word. Every array operation costs at least a microsecond. So this pays off for thousands of
characters, not for a single sentence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import ne
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, PieceArrays, bounds_of, joined, ranges
from heedful.tokens.encoder import ChunkPieces
from heedful.tokens.lexicon import Entries, Lexicon
from heedful.tokens.pieces import PieceLists
from heedful.tokens.word_keys import MAX_KEY_BYTES

BLOCK = 2**17
"""Characters per block, small enough that the arrays stay in the processor's cache."""
_END = " " * MAX_KEY_BYTES
_STEP = 256
"""Characters of the first range that is searched for a position to cut a long part."""
_HARD_SHARE = 8
"""If more than one word in this many belongs to a hard chunk, array operations do not pay off."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockWords:
    """The W words of a block of texts, in order."""

    symbols: NDArray[np.uint8]
    """Symbols that spell the words. At least 24 symbols follow the start of each word."""
    places: Indices
    """(W,) Start of each word among the symbols."""
    sizes: Indices
    """(W,) Number of symbols of each word."""
    starts: Indices
    """(W,) Start of each word in the block, in characters."""
    numbers: Indices
    """(W,) Lexicon number of each word, if known; -1 if it must be looked up by its symbols. The
    numbers of words in hard chunks are meaningless."""
    hard_starts: Indices
    """(C,) Start of each hard chunk, which array operations cannot handle, in characters. Hard
    chunks consist of whole words, including all words of more than 16 symbols without a number."""
    hard_ends: Indices
    """(C,) End of each hard chunk, in characters."""


class WordSplitter(Protocol):
    """Splits texts into words with array operations."""

    separator: str
    """The string before each text of a block, and after the last."""

    def parts(self, text: str, longest: int) -> list[slice]:
        """Cut a text into parts that are short enough for a block, without changing its pieces.

        Args:
            text: the text.
            longest: maximum characters of a part, where possible.
        """

    def words(self, texts: Sequence[str], block: str, text_starts: Indices) -> BlockWords:
        """Return the words of a block.

        Args:
            texts: the R texts of the block.
            block: a separator and a text, R times, then a separator and `MAX_KEY_BYTES` spaces.
            text_starts: start of each text, and of a hypothetical next text. Shape (R + 1,).
        """

    def are_whole(self, texts: Sequence[str]) -> bool:
        """Return whether none of the texts must be cut for a reason other than its length."""


class BulkEncoder:
    """Converts many texts to pieces.

    Args:
        splitter: splits texts into words.
        lexicon: looks up the pieces of words.
        chunk_ids: hard chunk -> its token ids.
        chunk_pieces: hard chunk -> its pieces.
        plain: encodes texts one by one, with or without offsets.
    """

    def __init__(
        self,
        splitter: WordSplitter,
        lexicon: Lexicon,
        *,
        chunk_ids: Mapping[str, tuple[int, ...]],
        chunk_pieces: Mapping[str, ChunkPieces],
        plain: Callable[[Sequence[str], bool], PieceLists],
    ) -> None:
        self._splitter = splitter
        self._lexicon = lexicon
        self._chunk_ids = chunk_ids
        self._chunk_pieces = chunk_pieces
        self._plain = plain
        self._lock = Lock()

    def encode(self, texts: Sequence[str], *, located: bool) -> PieceArrays:
        """Return the pieces of all texts, with offsets if ``located``."""
        with self._lock:  # updates of the caches are not atomic
            if max(map(len, texts), default=0) <= BLOCK and self._splitter.are_whole(texts):
                return joined([self._encoded(block, located) for block in _blocks(texts)])
            cuts = [self._splitter.parts(text, BLOCK) for text in texts]
            parts = [text[part] for text, cut in zip(texts, cuts, strict=True) for part in cut]
            pieces = joined([self._encoded(block, located) for block in _blocks(parts)])
        pieces = pieces.shifted(np.array([part.start for cut in cuts for part in cut]))
        return pieces.grouped([len(cut) for cut in cuts])

    def _encoded(self, texts: Sequence[str], located: bool) -> PieceArrays:
        if len(texts) == 1 and len(texts[0]) > BLOCK:
            return self._plain(texts, located).arrays()
        separator = self._splitter.separator
        block = separator.join(("", *texts, _END))
        lengths = np.array([len(one) for one in texts], np.int64)
        text_starts = len(separator) + bounds_of(lengths + len(separator))
        words = self._splitter.words(texts, block, text_starts)
        self._lexicon.ensure_capacity(len(words.starts))
        if len(words.hard_starts) * _HARD_SHARE > len(words.starts):
            return self._plain(texts, located).arrays()
        numbers, starts = self._numbers(words), words.starts
        entries = self._lexicon.entries
        inner_words = np.zeros(0, np.bool_)
        if words.hard_starts.size:
            chunks = words.hard_starts, words.hard_ends
            entries, inner_words = self._with_chunks(entries, block, *chunks, located)
            chunk_numbers = np.arange(len(entries) - len(words.hard_starts), len(entries))
            numbers = _replaced(numbers, chunk_numbers, starts, *chunks)
            starts = _replaced(starts, words.hard_starts, starts, *chunks)
        # A word may start with the separator's last character, if it acts as a space.
        bounds = np.searchsorted(starts, text_starts - len(separator))
        return _gathered(
            entries, numbers, starts, text_starts, bounds, inner_words if located else None
        )

    def _numbers(self, words: BlockWords) -> Indices:
        """Return the lexicon number of each word; meaningless for words in hard chunks."""
        numbers = words.numbers
        looked_up = np.flatnonzero((numbers < 0) & (words.sizes <= MAX_KEY_BYTES))
        numbers[looked_up] = self._lexicon.numbers(
            words.symbols, words.places[looked_up], words.sizes[looked_up]
        )
        return numbers

    def _with_chunks(
        self, entries: Entries, block: str, starts: Indices, ends: Indices, located: bool
    ) -> tuple[Entries, NDArray[np.bool_]]:
        """Append the hard chunks of a block to the entries, like words.

        Returns:
            All entries, and whether each new piece begins a word of its chunk; empty unless
            ``located``.
        """
        chunks = [
            block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        begins_word = np.zeros(0, np.bool_)
        if located:
            pieces = [self._chunk_pieces[chunk] for chunk in chunks]
            columns = [
                np.array([*chain.from_iterable(column)], np.int64)
                for column in zip(*((one.ids, one.begins, one.ends) for one in pieces), strict=True)
            ]
            counts = np.array([one.size for one in pieces])
            begins_word = np.array(
                [new for one in pieces for new in map(ne, one.words, (-1, *one.words))], np.bool_
            )
        else:
            ids = [self._chunk_ids[chunk] for chunk in chunks]
            flat = np.array([*chain.from_iterable(ids)], np.int64)
            columns = [flat, np.zeros_like(flat), np.zeros_like(flat)]
            counts = np.array([len(one) for one in ids])
        return entries.extended(counts, *columns), begins_word


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into blocks, each of at most `BLOCK` characters or a single text."""
    first, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text) + 1
        if size > BLOCK and index > first:
            yield texts[first:index]
            first, size = index, len(text) + 1
    yield texts[first:]


def cut_into_parts(cut: Callable[[str, int, int], int], text: str, longest: int) -> list[slice]:
    """Cut a text into parts of at most ``longest`` characters, or longer if it cannot be cut.

    Args:
        cut: returns the last position between two bounds where a text may be cut, -1 if none.
        text: the text.
        longest: maximum characters of a part.
    """
    parts, start, size = [], 0, len(text)
    while size - start > longest:
        low, high, step = start + 1, start + longest, _STEP
        end = cut(text, low, high)
        while end < 0 and high < size:
            low, high, step = high, high + step, 2 * step
            end = cut(text, low, high)
        end = end if end >= 0 else size
        parts.append(slice(start, end))
        start = end
    return [*parts, slice(start, size)] if start < size or not parts else parts


def _replaced(
    words: Indices, chunks: Indices, starts: Indices, chunk_starts: Indices, chunk_ends: Indices
) -> Indices:
    """Replace the items of the words in each chunk with one item for the chunk.

    Args:
        words: one item for each word of a text. Shape (W,).
        chunks: one item for each chunk. Shape (C,).
        starts: start of each word. Shape (W,).
        chunk_starts: start of each chunk. Shape (C,).
        chunk_ends: end of each chunk. Shape (C,).
    """
    first, end = np.searchsorted(starts, chunk_starts), np.searchsorted(starts, chunk_ends)
    with_chunks = np.insert(words, first, chunks)
    before = np.arange(len(chunks)) + 1  # number of chunks inserted before each one's words
    return np.delete(with_chunks, ranges(first + before, end - first))


def _gathered(
    entries: Entries,
    numbers: Indices,
    starts: Indices,
    text_starts: Indices,
    word_bounds: Indices,
    inner_words: NDArray[np.bool_] | None,
) -> PieceArrays:
    """Gather the pieces of words, given by their numbers and starts.

    Args:
        entries: the pieces of each number.
        numbers: the number of each word, in order. Shape (W,).
        starts: start of each word. Shape (W,).
        text_starts: start of each text, and of a hypothetical next text. Shape (R + 1,).
        word_bounds: first word of each text, and the end of the last. Shape (R + 1,).
        inner_words: for the last K pieces of the entries, those of hard chunks, whether each
            begins a word. Shape (K,). None to leave out offsets and words.
    """
    counts = entries.counts.take(numbers)
    piece_bounds = bounds_of(counts)
    pieces = ranges(entries.firsts.take(numbers), counts)
    bounds = piece_bounds.take(word_bounds)
    begins = ends = np.zeros(0, np.int64)
    begins_word = np.zeros(0, np.bool_)
    if inner_words is not None:
        shifts = np.repeat(starts, counts) - np.repeat(text_starts[:-1], np.diff(bounds))
        # An inserted space before a text is not part of the text.
        begins = np.maximum(entries.begins.take(pieces) + shifts, 0)
        ends = np.maximum(entries.ends.take(pieces) + shifts, 0)
        begins_word = np.zeros(len(pieces), np.bool_)
        begins_word[piece_bounds[:-1][counts > 0]] = True
        if inner_words.size:
            num_plain = len(entries.ids) - len(inner_words)
            in_chunks = np.flatnonzero(pieces >= num_plain)
            begins_word[in_chunks] |= inner_words[pieces[in_chunks] - num_plain]
    return PieceArrays(
        ids=entries.ids.take(pieces),
        begins=begins,
        ends=ends,
        bounds=bounds,
        begins_word=begins_word,
    )

"""Many texts -> pieces by array operations: words are told apart and looked up all at once.

The results are those of the plain encoders, to which a stretch is handed that has anything unusual
in it, such as a long word. An operation on arrays costs a microsecond however short they are, so
this pays for thousands of characters, not for a sentence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, PieceArrays, bounds_of, joined, ranges
from heedful.tokens.encoder import ChunkPieces
from heedful.tokens.keys import MAX_LETTERS
from heedful.tokens.lexicon import Entries, Lexicon
from heedful.tokens.pieces import PieceLists

BLOCK = 2**17
"""Characters that are worked on together: so few that the arrays stay in a processor's cache."""
_END = " " * MAX_LETTERS
_STEP = 256
"""Characters in which a place to cut a long part at is looked for first."""
_HARD_SHARE = 8
"""Where more than one in so many words is in a chunk of its own, arrays are in the way."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockWords:
    """The W words of a block of texts, in order."""

    symbols: NDArray[np.uint8]
    """What their letters are spelt with; 24 more follow the start of each word."""
    places: Indices
    """(W,) Where each word starts among the symbols."""
    sizes: Indices
    """(W,) Its number of symbols."""
    starts: Indices
    """(W,) Where it starts in the block, in characters."""
    numbers: Indices
    """(W,) Its number in the lexicon where that is known; -1 where its symbols tell it. Those of
    words in hard chunks have no meaning."""
    hard_starts: Indices
    """(C,) Where each chunk starts that arrays cannot treat, in characters. Chunks hold whole
    words, among them all of more than 16 symbols that have no number."""
    hard_ends: Indices
    """(C,) Where it ends."""


class WordSplitter(Protocol):
    """Tells the words of texts, by operations on arrays."""

    separator: str
    """What stands before each text of a block, and behind the last."""

    def parts(self, text: str, longest: int) -> list[slice]:
        """Cut a text to parts whose pieces are its pieces: those of a block have to be short.

        Args:
            text: the text.
            longest: the most characters of a part, where that can be.
        """

    def words(self, texts: Sequence[str], block: str, text_starts: Indices) -> BlockWords:
        """Return the words of a block.

        Args:
            texts: its texts, R in all.
            block: a separator and a text, R times, then a separator and `MAX_LETTERS` spaces.
            text_starts: where each text starts, and where one more would. Shape (R + 1,).
        """

    def are_whole(self, texts: Sequence[str]) -> bool:
        """Tell whether none of the texts has to be cut, for another reason than its length."""


class BulkEncoder:
    """Turns many texts into pieces.

    Args:
        splitter: what tells words.
        lexicon: what knows the pieces of words.
        chunk_ids: hard chunk -> its ids.
        chunk_pieces: hard chunk -> its pieces.
        plain: the way to the pieces of texts one by one, with offsets or without.
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
        with self._lock:  # what is remembered changes step by step
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
        self._lexicon.make_room(len(words.starts))
        if len(words.hard_starts) * _HARD_SHARE > len(words.starts):
            return self._plain(texts, located).arrays()
        numbers, starts = self._numbers(words), words.starts
        entries = self._lexicon.entries
        if words.hard_starts.size:
            chunks = words.hard_starts, words.hard_ends
            entries, more = self._with_chunks(entries, block, *chunks, located)
            numbers = _replaced(numbers, more, starts, *chunks)
            starts = _replaced(starts, words.hard_starts, starts, *chunks)
        # A word may start with the separator's last character, where that stands for a space.
        bounds = np.searchsorted(starts, text_starts - len(separator))
        return _gathered(entries, numbers, starts, text_starts, bounds, located)

    def _numbers(self, words: BlockWords) -> Indices:
        """Return the number of each word; no meaning where it is hard."""
        numbers = words.numbers
        told = np.flatnonzero((numbers < 0) & (words.sizes <= MAX_LETTERS))
        numbers[told] = self._lexicon.numbers(words.symbols, words.places[told], words.sizes[told])
        return numbers

    def _with_chunks(
        self, entries: Entries, block: str, starts: Indices, ends: Indices, located: bool
    ) -> tuple[Entries, Indices]:
        """Number the chunks of a block like words, and return all words and these numbers."""
        chunks = [
            block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        numbers = np.arange(len(entries), len(entries) + len(chunks))
        if located:
            pieces = [self._chunk_pieces[chunk] for chunk in chunks]
            columns = [
                np.array([*chain.from_iterable(column)], np.int64)
                for column in zip(*((one.ids, one.begins, one.ends) for one in pieces), strict=True)
            ]
            counts = np.array([one.size for one in pieces])
        else:
            ids = [self._chunk_ids[chunk] for chunk in chunks]
            flat = np.array([*chain.from_iterable(ids)], np.int64)
            columns = [flat, np.zeros_like(flat), np.zeros_like(flat)]
            counts = np.array([len(one) for one in ids])
        return entries.extended(counts, *columns), numbers


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into blocks, each of at most `BLOCK` characters or a single text."""
    first, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text) + 1
        if size > BLOCK and index > first:
            yield texts[first:index]
            first, size = index, len(text) + 1
    yield texts[first:]


def parts_at(cut: Callable[[str, int, int], int], text: str, longest: int) -> list[slice]:
    """Cut a text into parts of at most so many characters, longer where it cannot be cut.

    Args:
        cut: returns the last place between two where a text may be cut, -1 if there is none.
        text: the text.
        longest: the most characters of a part.
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
    """Put one item for each chunk in the place of those of the words in it.

    Args:
        words: one item for each word of a text. Shape (W,).
        chunks: one for each of some chunks. Shape (C,).
        starts: where each word starts. Shape (W,).
        chunk_starts: where each chunk starts. Shape (C,).
        chunk_ends: where it ends. Shape (C,).
    """
    first, end = np.searchsorted(starts, chunk_starts), np.searchsorted(starts, chunk_ends)
    with_chunks = np.insert(words, first, chunks)
    before = np.arange(len(chunks)) + 1  # as many chunks are before the words of each, itself too
    return np.delete(with_chunks, ranges(first + before, end - first))


def _gathered(
    entries: Entries,
    numbers: Indices,
    starts: Indices,
    text_starts: Indices,
    word_bounds: Indices,
    located: bool,
) -> PieceArrays:
    """Return the pieces of words, given by their numbers and where they start.

    Args:
        entries: the pieces of each number.
        numbers: the words in order. Shape (W,).
        starts: where each starts. Shape (W,).
        text_starts: where each text starts, and where one more would. Shape (R + 1,).
        word_bounds: the first word of each text, and of one more. Shape (R + 1,).
        located: whether to return offsets.
    """
    counts = entries.counts.take(numbers)
    sums = bounds_of(counts)
    pieces = np.arange(sums[-1]) + np.repeat(entries.firsts.take(numbers) - sums[:-1], counts)
    bounds = sums.take(word_bounds)
    begins = ends = np.zeros(0, np.int64)
    if located:
        shifts = np.repeat(starts, counts) - np.repeat(text_starts[:-1], np.diff(bounds))
        # What stands for a space before a text is not in the text.
        begins = np.maximum(entries.begins.take(pieces) + shifts, 0)
        ends = np.maximum(entries.ends.take(pieces) + shifts, 0)
    return PieceArrays(ids=entries.ids.take(pieces), begins=begins, ends=ends, bounds=bounds)

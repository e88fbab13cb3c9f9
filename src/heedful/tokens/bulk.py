"""Many texts -> pieces by array operations: words are told apart and looked up all at once.

The results are those of `WordPieceEncoder`, to which a chunk is handed that has anything unusual in
it: a special token, a character that becomes two or none, a word of more than 16 letters. An
operation on arrays costs a microsecond however short they are, so this pays for thousands of
characters, not for a sentence.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, PieceArrays, bounds_of, joined, ranges
from heedful.tokens.encoder import ChunkPieces
from heedful.tokens.keys import MAX_LETTERS
from heedful.tokens.lexicon import Entries, Lexicon
from heedful.tokens.normalize import Normalizer
from heedful.tokens.pieces import PieceLists
from heedful.tokens.symbols import HARD, IDEOGRAPH, SPACE, Symbols
from heedful.tokens.vocabulary import Vocabulary

BLOCK = 2**17
"""Characters that are worked on together: so few that the arrays stay in a processor's cache."""
_END = " " * MAX_LETTERS
_SPACES = (" ", "\n")
_HARD_SHARE = 8
"""Where more than one in so many words is in a chunk of its own, arrays are in the way."""


class BulkEncoder:
    """Turns many texts into pieces.

    Args:
        normalizer: what becomes of characters; it splits every word.
        vocabulary: the tokens. Special ones are matched whole, before anything else is done.
        chunk_ids: chunk -> its ids.
        chunk_pieces: chunk -> its pieces.
        plain: the way to the pieces of texts chunk by chunk, with offsets or without.
    """

    def __init__(
        self,
        normalizer: Normalizer,
        vocabulary: Vocabulary,
        *,
        chunk_ids: Mapping[str, tuple[int, ...]],
        chunk_pieces: Mapping[str, ChunkPieces],
        plain: Callable[[Sequence[str], bool], PieceLists],
    ) -> None:
        tokens, ids = vocabulary.tokens, vocabulary.ids
        self._symbols = Symbols(normalizer, ids, unknown=len(tokens))
        unknown_id = ids[vocabulary.special.unk_token]
        self._lexicon = Lexicon(tokens, self._symbols.letters, unknown_id)
        self._special_tokens = [*vocabulary.special_ids()]
        self._special_starts = {token[0] for token in self._special_tokens}
        self._chunk_ids = chunk_ids
        self._chunk_pieces = chunk_pieces
        self._plain = plain
        self._lock = Lock()

    def encode(self, texts: Sequence[str], *, located: bool) -> PieceArrays:
        """Return the pieces of all texts, with offsets if ``located``."""
        with self._lock:  # what is remembered changes step by step
            if max(map(len, texts), default=0) <= BLOCK:
                return joined([self._encoded(block, located) for block in _blocks(texts)])
            cuts = [_parts(text) for text in texts]
            parts = [text[part] for text, cut in zip(texts, cuts, strict=True) for part in cut]
            pieces = joined([self._encoded(block, located) for block in _blocks(parts)])
        pieces = pieces.shifted(np.array([part.start for cut in cuts for part in cut]))
        return pieces.grouped([len(cut) for cut in cuts])

    def _encoded(self, texts: Sequence[str], located: bool) -> PieceArrays:
        if len(texts) == 1 and len(texts[0]) > BLOCK:
            return self._plain(texts, located).arrays()
        text = " ".join(("", *texts, _END))
        symbols, codes = self._symbols.read(text)
        starts, sizes = _words(symbols)
        hard = self._hard(text, symbols, starts, sizes)
        self._lexicon.make_room(len(starts))
        numbers = self._numbers(symbols, codes, starts, sizes)
        entries = self._lexicon.entries
        if hard.size:
            cuts = np.flatnonzero((symbols == SPACE) | (symbols == IDEOGRAPH))
            chunks = np.unique(np.searchsorted(cuts, hard))
            if len(chunks) * _HARD_SHARE > len(starts):
                return self._plain(texts, located).arrays()
            chunk_starts, chunk_ends = cuts[chunks - 1] + 1, cuts[chunks]
            entries, more = self._with_chunks(entries, text, chunk_starts, chunk_ends, located)
            numbers = _replaced(numbers, more, starts, chunk_starts, chunk_ends)
            starts = _replaced(starts, chunk_starts, starts, chunk_starts, chunk_ends)
        lengths = np.array([len(one) for one in texts])
        text_starts = 1 + bounds_of(lengths + 1)
        return _gathered(entries, numbers, starts, text_starts, located)

    def _numbers(
        self,
        symbols: NDArray[np.uint8],
        codes: NDArray[np.uint8] | NDArray[np.uint32],
        starts: Indices,
        sizes: Indices,
    ) -> Indices:
        """Return the number of each word; no meaning where it is hard."""
        numbers = np.zeros(len(starts), np.int64)
        is_single = symbols.take(starts) > SPACE
        singles, words = (
            np.flatnonzero(is_single),
            np.flatnonzero(~is_single & (sizes <= MAX_LETTERS)),
        )
        numbers[singles] = self._symbols.single_numbers.take(codes.take(starts[singles]))
        numbers[words] = self._lexicon.numbers(symbols, starts[words], sizes[words])
        return numbers

    def _hard(
        self, text: str, symbols: NDArray[np.uint8], starts: Indices, sizes: Indices
    ) -> Indices:
        """Return places of a text of which arrays do not know how to treat the chunk."""
        hard = symbols == HARD
        places = [np.flatnonzero(hard)] if hard.any() else []
        if (sizes > MAX_LETTERS).any():
            places.append(starts[sizes > MAX_LETTERS])
        # Looking for a character is much faster than looking for a token.
        if any(character in text for character in self._special_starts):
            places += [
                np.array([match.start() for match in re.finditer(re.escape(token), text)])
                for token in self._special_tokens
                if token in text
            ]
        return np.concatenate(places) if places else np.zeros(0, np.int64)

    def _with_chunks(
        self, entries: Entries, text: str, starts: Indices, ends: Indices, located: bool
    ) -> tuple[Entries, Indices]:
        """Number the chunks of a text like words, and return all words and these numbers."""
        chunks = [
            text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
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


def _parts(text: str) -> list[slice]:
    """Cut a text at spaces into parts of at most `BLOCK` characters, longer where no space is."""
    parts, start = [], 0
    while len(text) - start > BLOCK:
        end = max(text.rfind(space, start + 1, start + BLOCK) for space in _SPACES)
        if end < 0:
            nexts = [text.find(space, start + BLOCK) for space in _SPACES]
            end = min((place for place in nexts if place >= 0), default=len(text))
        parts.append(slice(start, end))
        start = end
    return [*parts, slice(start, len(text))]


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into blocks, each of at most `BLOCK` characters or a single text."""
    first, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text) + 1
        if size > BLOCK and index > first:
            yield texts[first:index]
            first, size = index, len(text) + 1
    yield texts[first:]


def _words(symbols: NDArray[np.uint8]) -> tuple[Indices, Indices]:
    """Return where each word starts, and its size. The first and the last symbol are spaces."""
    is_letter, is_single = symbols < SPACE, symbols > SPACE
    starts = np.flatnonzero((is_letter[1:] > is_letter[:-1]) | is_single[1:]) + 1
    ends = np.flatnonzero((is_letter[:-1] > is_letter[1:]) | is_single[:-1]) + 1
    return starts, ends - starts


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
    entries: Entries, numbers: Indices, starts: Indices, text_starts: Indices, located: bool
) -> PieceArrays:
    """Return the pieces of words, given by their numbers and where they start.

    Args:
        entries: the pieces of each number.
        numbers: the words in order. Shape (W,).
        starts: where each starts. Shape (W,).
        text_starts: where each text starts, and where one more would. Shape (R + 1,).
        located: whether to return offsets.
    """
    counts = entries.counts.take(numbers)
    pieces = ranges(entries.firsts.take(numbers), counts)
    bounds = bounds_of(counts).take(np.searchsorted(starts, text_starts))
    begins = ends = np.zeros(0, np.int64)
    if located:
        shifts = np.repeat(starts, counts) - np.repeat(text_starts[:-1], np.diff(bounds))
        begins = entries.begins.take(pieces) + shifts
        ends = entries.ends.take(pieces) + shifts
    return PieceArrays(ids=entries.ids.take(pieces), begins=begins, ends=ends, bounds=bounds)

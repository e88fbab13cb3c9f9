"""One text -> its ids, or its ids with the places they came from, by way of remembered chunks.

A chunk is what stands between two spaces. Nothing that the reference does to a text reaches across
a space: words end there, special tokens hold none, and canonical order does not pass it. So the
ids of a text are those of its chunks, one after the other, and each chunk, as it was typed, is
worked out once.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, repeat
from operator import add
from typing import Generic, NamedTuple, TypeVar

from heedful.tokens.batch import Words
from heedful.tokens.encoding import Pieces, Text
from heedful.tokens.normalize import Normalizer
from heedful.tokens.vocabulary import Vocabulary
from heedful.tokens.wordpiece import WordPiece, piece_ends

MAX_CHUNK = 64
"""Characters of the longest chunk that is remembered."""
MAX_CHUNKS = 2**17
"""Chunks whose ids are remembered before all are forgotten; some 25 MB."""
MAX_LOCATED_CHUNKS = 2**16
"""The same for chunks with the places of their pieces, which take more room."""

T = TypeVar("T")


class Memory(dict[str, T], Generic[T]):
    """Chunk -> what was made of it, which is made when first asked for.

    Forgetting changes no result: what is made depends on the chunk alone.

    Args:
        make: what makes it.
        limit: chunks to remember; the next one makes it forget them all.
    """

    def __init__(self, make: Callable[[str], T], limit: int) -> None:
        self._make = make
        self._limit = limit

    def __missing__(self, chunk: str) -> T:
        made = self._make(chunk)
        if len(chunk) <= MAX_CHUNK:
            if len(self) >= self._limit:
                self.clear()
            self[chunk] = made
        return made


class _ChunkPieces(NamedTuple):
    """The pieces of one chunk, offsets and words counted from its start."""

    ids: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    words: tuple[int, ...]
    size: int
    """Number of pieces."""
    word_count: int


class TextEncoder:
    """Turns texts into ids.

    Args:
        normalizer: text -> words; those that it never splits are looked up whole.
        vocabulary: the tokens. Special ones are matched whole, before anything else is done.
    """

    def __init__(self, normalizer: Normalizer, vocabulary: Vocabulary) -> None:
        self._normalizer = normalizer
        self._special = vocabulary.special_ids()
        self._tokens = vocabulary.tokens
        unknown_id = vocabulary.ids[vocabulary.special.unk_token]
        self._words = WordPiece(vocabulary.ids, unknown_id, whole_words=normalizer.never_split)
        # The leftmost special token is taken, and of those that begin there the longest.
        longest_first = sorted(self._special, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._chunk_ids = Memory(self._ids_of, MAX_CHUNKS)
        self._chunk_pieces = Memory(self._pieces_of, MAX_LOCATED_CHUNKS)

    def text(self, text: Words) -> Text:
        """Encode a text, or a text that is given as words, for a call."""
        if isinstance(text, str):
            return Text(self.ids([text])[0], partial(self.pieces, text))
        ids = list(chain.from_iterable(self.ids(text)))
        return Text(ids, partial(self._pieces_of_words, text))

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        ids = self._chunk_ids.__getitem__
        return [
            # A line break is a space too, and cutting there makes for chunks that come again.
            list(chain.from_iterable(map(ids, text.replace("\n", " ").split(" "))))
            for text in texts
        ]

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of."""
        chunks = text.replace("\n", " ").split(" ")
        found = map(self._chunk_pieces.__getitem__, chunks)
        ids, begins, ends, words, sizes, word_counts = zip(*found, strict=True)
        # Where each chunk starts, and how many words stand before it; then both for each piece.
        starts = accumulate((len(chunk) + 1 for chunk in chunks), initial=0)
        firsts = accumulate(word_counts, initial=0)
        shifts = list(chain.from_iterable(map(repeat, starts, sizes)))
        word_shifts = chain.from_iterable(map(repeat, firsts, sizes))
        return Pieces(
            ids=list(chain.from_iterable(ids)),
            offsets=list(
                zip(
                    map(add, chain.from_iterable(begins), shifts),
                    map(add, chain.from_iterable(ends), shifts),
                    strict=True,
                )
            ),
            words=list(map(add, chain.from_iterable(words), word_shifts)),
        )

    def _pieces_of_words(self, words: Sequence[str]) -> Pieces:
        found = Pieces()
        for at, word in enumerate(words):
            pieces = self.pieces(word)
            found.ids.extend(pieces.ids)
            found.offsets.extend(pieces.offsets)
            found.words.extend([at] * len(pieces.ids))
        return found

    def _ids_of(self, chunk: str) -> tuple[int, ...]:
        if self._pattern.search(chunk):
            parts = self._parts(chunk)
            ids = [
                (self._special[part],) if special else self._ids_of(part) for part, special in parts
            ]
            return tuple(chain.from_iterable(ids))
        words = self._normalizer.words(chunk)
        if len(words) == 1:
            return self._words[words[0]]
        return tuple(chain.from_iterable(map(self._words.__getitem__, words)))

    def _pieces_of(self, chunk: str) -> _ChunkPieces:
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        words: list[int] = []
        count = 0
        for word_ids, word, sources in self._sourced_words(chunk):
            begin = 0
            for end in piece_ends([self._tokens[at] for at in word_ids], word):
                # Canonical order may have put a character before one that stood to its left.
                begins.append(min(sources[begin:end]))
                ends.append(max(sources[begin:end]) + 1)
                begin = end
            ids += word_ids
            words += [count] * len(word_ids)
            count += 1
        return _ChunkPieces(tuple(ids), tuple(begins), tuple(ends), tuple(words), len(ids), count)

    def _sourced_words(self, chunk: str) -> Iterator[tuple[tuple[int, ...], str, list[int]]]:
        """Yield the ids, the text, and the places of the characters of each word of a chunk."""
        start = 0
        for part, special in self._parts(chunk):
            if special:
                yield (self._special[part],), part, list(range(start, start + len(part)))
            else:
                for word, sources in self._normalizer.sourced_words(part):
                    yield self._words[word], word, [start + at for at in sources]
            start += len(part)

    def _parts(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cut a text before and after its special tokens; say of each part whether it is one."""
        start = 0
        for match in self._pattern.finditer(text):
            yield text[start : match.start()], False
            yield match.group(), True
            start = match.end()
        yield text[start:], False

"""One text -> its ids, or its ids with the places they came from, by way of remembered chunks.

A chunk is what stands between two spaces. Nothing that the reference does to a text reaches across
a space: words end there, special tokens hold none, and canonical order does not pass it. So the
ids of a text are those of its chunks, one after the other, and each chunk, as it was typed, is
worked out once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from heedful.tokens.encoding import Pieces
from heedful.tokens.normalize import Normalizer
from heedful.tokens.wordpiece import WordPiece, piece_ends

MAX_CHUNK = 64
"""Characters of the longest chunk that is remembered."""
MAX_CHUNKS = 2**17
"""Chunks that are remembered before all are forgotten; some 30 MB."""


class _ChunkIds(dict[str, tuple[int, ...]]):
    """Chunk -> its ids, worked out when first asked for. Forgetting changes no result."""

    def __init__(
        self, normalizer: Normalizer, words: WordPiece, special: Mapping[str, int]
    ) -> None:
        self._words = normalizer.words
        self._word_ids = words.__getitem__
        self._special = special
        # The leftmost special token is taken, and of those that begin there the longest.
        longest_first = sorted(special, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._find_special = self._pattern.search

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        found = self.of(chunk)
        if len(chunk) <= MAX_CHUNK:
            if len(self) >= MAX_CHUNKS:
                self.clear()
            self[chunk] = found
        return found

    def of(self, text: str) -> tuple[int, ...]:
        """Work out the ids of a text."""
        if self._find_special(text):
            return tuple(
                chain.from_iterable(
                    (self._special[part],) if special else self.of(part)
                    for part, special in self.parts(text)
                )
            )
        words = self._words(text)
        if len(words) == 1:
            return self._word_ids(words[0])
        return tuple(chain.from_iterable(map(self._word_ids, words)))

    def parts(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cut a text before and after its special tokens; say of each part whether it is one."""
        start = 0
        for match in self._pattern.finditer(text):
            yield text[start : match.start()], False
            yield match.group(), True
            start = match.end()
        yield text[start:], False


class TextEncoder:
    """Turns a text into ids.

    Args:
        normalizer: text -> words.
        words: word -> ids.
        special: tokens that are matched whole, before anything else is done, and their ids.
        tokens: the token of each id.
    """

    def __init__(
        self,
        normalizer: Normalizer,
        words: WordPiece,
        special: Mapping[str, int],
        tokens: Sequence[str],
    ) -> None:
        self._normalizer = normalizer
        self._words = words
        self._special = special
        self._tokens = tokens
        self._chunks = _ChunkIds(normalizer, words, special)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        ids = self._chunks.__getitem__
        return [
            # A line break is a space too, and cutting there makes for chunks that come again.
            list(chain.from_iterable(map(ids, text.replace("\n", " ").split(" "))))
            for text in texts
        ]

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of."""
        found = Pieces()
        start = word_count = 0
        for part, special in self._chunks.parts(text):
            if special:
                found.ids.append(self._special[part])
                found.offsets.append((start, start + len(part)))
                found.words.append(word_count)
                word_count += 1
            else:
                for word, sources in self._normalizer.sourced_words(part):
                    self._append_word(found, word, [start + at for at in sources], word_count)
                    word_count += 1
            start += len(part)
        return found

    def pieces_of_words(self, words: Sequence[str]) -> Pieces:
        """Return the pieces of a text that is given as words."""
        found = Pieces()
        for at, word in enumerate(words):
            pieces = self.pieces(word)
            found.ids.extend(pieces.ids)
            found.offsets.extend(pieces.offsets)
            found.words.extend([at] * len(pieces.ids))
        return found

    def _append_word(self, found: Pieces, word: str, sources: list[int], index: int) -> None:
        ids = self._words[word]
        begin = 0
        for end in piece_ends([self._tokens[at] for at in ids], word):
            # Canonical order may have moved a character before one that stood to its left.
            came_from = sources[begin:end]
            found.offsets.append((min(came_from), max(came_from) + 1))
            begin = end
        found.ids.extend(ids)
        found.words.extend([index] * len(ids))

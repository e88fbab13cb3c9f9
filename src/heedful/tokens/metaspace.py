"""Unigram tokenization of texts: split into words (`splitting.py`), then segment each word."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice
from typing import ClassVar

from heedful.tokens.clusters import cut_at_spaces
from heedful.tokens.encoder import (
    MAX_CHUNK,
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkCache,
    ChunkPieces,
    pieces_of_chunks,
)
from heedful.tokens.pieces import PieceLists, Pieces
from heedful.tokens.plain_splitting import WORD_START
from heedful.tokens.splitting import Item, NeedsContextError, Rules, Splitter
from heedful.tokens.unigram import MIN_BATCH_WORDS, Unigram
from heedful.tokens.vocabulary import Vocabulary

MAX_WORDS = 2**17
"""Number of words to cache before the cache is cleared."""
MAX_BATCHED_CHUNK = 2**12
"""Characters of the longest chunk that is encoded in a batch with others."""

Chunks = list[str] | None
"""The chunks of a text; None if the text must be split as a whole."""

_GROUP = 2**18
"""Characters of a group of texts whose words are segmented in one batch."""
_SAMPLE_EVERY = 8
"""One text in this many is sampled to estimate whether a group has many new chunks."""


class UnigramEncoder:
    """Converts texts to token ids.

    A chunk is the text between two spaces. Chunks are encoded independently, except for a few with
    white space or added tokens at their ends. A text with such a chunk is encoded as a whole.

    Args:
        unigram: segments words.
        rules: the rules for splitting a text into words.
        vocabulary: the tokens. Added tokens are matched whole, before any other step.
    """

    writes_spaces: ClassVar[bool] = True

    def __init__(self, unigram: Unigram, rules: Rules, vocabulary: Vocabulary) -> None:
        self._splitter = Splitter(rules, vocabulary)
        self._bytes = unigram.bytes
        self._tokens = vocabulary.tokens
        self._unigram = unigram
        self._words = ChunkCache(unigram.segment, MAX_WORDS)
        self._plain_ids = ChunkCache(self._ids_of_word, MAX_WORDS)
        self._first_ids = ChunkCache(partial(self._ids_of, ""), MAX_CHUNKS)
        self._spaced_ids = ChunkCache(partial(self._ids_of, " "), MAX_CHUNKS)
        self._first_pieces = ChunkCache(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        self._spaced_pieces = ChunkCache(partial(self._pieces_of, " "), MAX_LOCATED_CHUNKS)

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceLists:
        """Return the pieces of all texts, with offsets if ``located``."""
        if not located:
            return PieceLists.of(self.ids(texts))
        pieces: list[Pieces] = []
        for group in _groups(texts):
            too_long: Collection[str] = ()
            if _many_are_new(map(self._chunks, group[::_SAMPLE_EVERY]), self._spaced_pieces):
                too_long = self._learn_pieces([*map(self._chunks, group)])
            pieces += map(self.pieces, group)
            self._first_pieces.discard(too_long)
            self._spaced_pieces.discard(too_long)
        return PieceLists.of_texts(pieces)

    def check_words(self) -> None:
        """Do nothing: this encoder accepts texts that are split into words."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        ids: list[list[int]] = []
        for group in _groups(texts):
            chunks = [*map(self._chunks, group)]
            too_long: Collection[str] = ()
            if _many_are_new(chunks[::_SAMPLE_EVERY], self._spaced_ids):
                too_long = self._learn_ids(chunks)
            ids += map(self._text_ids, group, chunks)
            self._first_ids.discard(too_long)
            self._spaced_ids.discard(too_long)
        return ids

    def pieces(self, text: str) -> Pieces:
        """Return the token ids of a text, with the offsets and the word index of each.

        The slice of a piece includes its leading space. Of several spaces, it includes the last.
        """
        splitter = self._splitter
        removed, trimmed = splitter.trimmed(text)
        chunks = cut_at_spaces(trimmed)
        try:
            if splitter.has_chunks(text) and splitter.ends_plainly(trimmed):
                first = self._first_pieces[chunks[0]]
                located = [first, *map(self._spaced_pieces.__getitem__, islice(chunks, 1, None))]
            elif splitter.has_chunks(text):
                *others, last = chunks
                located = [self._first_pieces[others[0]]] if others else []
                located += map(self._spaced_pieces.__getitem__, islice(others, 1, None))
                located.append(self._pieces_of(" " if others else "", last, closed=True))
            else:
                raise NeedsContextError
        except NeedsContextError:
            removed, chunks, located = 0, [text], [self._located(splitter.items(text))]
        starts = accumulate((len(chunk) + 1 for chunk in chunks), initial=removed)
        return pieces_of_chunks(located, starts)

    def spelled(self, text: str) -> list[str]:
        """Return the tokens of a text, with the text of each unknown token, once normalized."""
        tokens: list[str] = []
        for word, _, added_id in self._splitter.items(text):
            if added_id is not None:
                tokens.append(self._tokens[added_id])
                continue
            begin = 0
            for token_id, end in self._words[word]:
                is_unknown = token_id == self._unigram.unknown_id
                tokens.append(word[begin:end] if is_unknown else self._tokens[token_id])
                begin = end
        return tokens

    def continues_word(self, token: str) -> bool:
        """Return whether a token continues the word before it, so has no leading space."""
        return token not in self._splitter.added.ids and not token.startswith(WORD_START)

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens into the text they spell, with U+FFFD for invalid bytes."""
        of_byte, spelled = self._bytes, bytearray()
        for token in tokens:
            byte = of_byte.get(token)
            spelled += token.encode("utf-8") if byte is None else bytes((byte,))
        return spelled.decode("utf-8", "replace").replace(WORD_START, " ").removeprefix(" ")

    def _chunks(self, text: str) -> Chunks:
        splitter = self._splitter
        return cut_at_spaces(splitter.trimmed(text)[1]) if splitter.has_chunks(text) else None

    def _new_words(self, words: Iterable[list[str] | None], known: Container[str]) -> list[str]:
        """Return the words that are not known, except placeholders of added tokens."""
        token_ids = self._splitter.plain.token_ids
        unique = dict.fromkeys(chain.from_iterable(group for group in words if group))
        return [word for word in unique if word not in known and word not in token_ids]

    def _learn_ids(self, texts: Sequence[Chunks]) -> list[str]:
        """Cache the ids of chunks. Segment their words in a batch, if that pays off.

        Returns:
            The chunks that are too long to stay cached after these texts.
        """
        plain, cache = self._splitter.plain, self._spaced_ids
        chunks = _new_chunks(texts, cache)
        words = list(plain.words_of(chunks))
        new_words = self._new_words(words, self._plain_ids)
        spelled = list(map(plain.spelled, new_words))
        ids: dict[str, tuple[int, ...]] = {}
        if trie := self._unigram.trie_for(len(spelled)):
            cut = trie.ids(list(dict.fromkeys(spelled)))
            ids = {
                word: cut[one] for word, one in zip(new_words, spelled, strict=True) if one in cut
            }
        word_cache = self._plain_ids
        word_cache.store({word: one for word, one in ids.items() if len(word) <= MAX_CHUNK})
        split = {chunk: group for chunk, group in zip(chunks, words, strict=True) if group}
        spaced: dict[str, tuple[int, ...]] = {}
        for chunk, group in split.items():
            parts = [ids[word] if word in ids else word_cache[word] for word in group]
            spaced[chunk] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        cache.store(spaced)
        self._first_ids.store(
            {
                chunk: spaced[chunk]
                for chunk in _first_chunks(texts)
                if chunk in split and plain.same_at_start(split[chunk])
            }
        )
        return [chunk for chunk in chunks if len(chunk) > MAX_CHUNK]

    def _learn_pieces(self, texts: Sequence[Chunks]) -> list[str]:
        """Cache the pieces of chunks, like `_learn_ids`."""
        plain, word_cache, cache = self._splitter.plain, self._words, self._spaced_pieces
        chunks = _new_chunks(texts, cache)
        words = list(plain.words_of(chunks, even=True))
        spelled = dict.fromkeys(map(plain.spelled, self._new_words(words, ())))
        new_words = [word for word in spelled if word not in word_cache]
        if trie := self._unigram.trie_for(len(new_words)):
            word_cache.store(trie.cuts(new_words))
        split = {chunk: group for chunk, group in zip(chunks, words, strict=True) if group}
        cache.store(
            {chunk: self._plainly_located(group, spaced=True) for chunk, group in split.items()}
        )
        self._first_pieces.store(
            {
                chunk: self._plainly_located(group, spaced=False)
                for chunk in _first_chunks(texts)
                if (group := split.get(chunk)) and plain.same_at_start(group)
            }
        )
        word_cache.discard(word for word in new_words if len(word) > MAX_CHUNK)
        return [chunk for chunk in chunks if len(chunk) > MAX_CHUNK]

    def _text_ids(self, text: str, chunks: Chunks) -> list[int]:
        splitter = self._splitter
        if chunks is not None:
            try:
                if splitter.ends_plainly(chunks[-1]):
                    ids = [*self._first_ids[chunks[0]]]
                    more = map(self._spaced_ids.__getitem__, islice(chunks, 1, None))
                    ids.extend(chain.from_iterable(more))
                    return ids
                *others, last = chunks
                ids = [*self._first_ids[others[0]]] if others else []
                more = map(self._spaced_ids.__getitem__, islice(others, 1, None))
                ids.extend(chain.from_iterable(more))
                ids += self._ids_of(" " if others else "", last, closed=True)
                return ids
            except NeedsContextError:
                pass
        return self._item_ids(splitter.items(text))

    def _ids_of(self, before: str, chunk: str, *, closed: bool = False) -> tuple[int, ...]:
        words = None if closed else self._splitter.plain.words(before + chunk)
        if words is None:
            return tuple(self._item_ids(self._splitter.chunk_items(before, chunk, closed=closed)))
        return self._ids_of_words(words)

    def _ids_of_words(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the token ids of words from the fast path."""
        if len(words) == 1:
            return self._plain_ids[words[0]]
        return tuple(chain.from_iterable(map(self._plain_ids.__getitem__, words)))

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        plain = self._splitter.plain
        token_id = plain.token_ids.get(word)
        if token_id is not None:
            return (token_id,)
        return tuple([token_id for token_id, _ in self._unigram.segment(plain.spelled(word))])

    def _item_ids(self, items: Iterable[Item]) -> list[int]:
        ids: list[int] = []
        for word, _, added_id in items:
            if added_id is None:
                ids += [token_id for token_id, _ in self._words[word]]
            else:
                ids.append(added_id)
        return ids

    def _pieces_of(self, before: str, chunk: str, *, closed: bool = False) -> ChunkPieces:
        return self._located(self._splitter.chunk_items(before, chunk, closed=closed))

    def _plainly_located(self, words: Sequence[str], *, spaced: bool) -> ChunkPieces:
        """Return the pieces of a chunk that was split with ``even``; see `Splitter.plain_items`."""
        word, plain = words[0], self._splitter.plain
        if len(words) == 1 and word[0] == " " and word not in plain.token_ids:
            ids, raw_ends = zip(*self._words[plain.spelled(word)], strict=True)
            # Unless several tokens spell one character, each token begins where another ends.
            if len(set(raw_ends)) == len(raw_ends):
                ends = [end - 1 for end in raw_ends]
                begins = [-1, *ends[:-1]]
                if not spaced:  # the inserted space shares the offset of the first character
                    begins[0], ends[0] = 0, max(ends[0], 1)
                return ChunkPieces(ids, tuple(begins), tuple(ends), (0,) * len(ids), len(ids), 1)
        return self._located(self._splitter.plain_items(words, spaced=spaced))

    def _located(self, items: Iterable[Item]) -> ChunkPieces:
        pieces: list[tuple[int, int, int, int]] = []
        word_count = 0
        for word, sources, added_id in items:
            begin = previous = 0
            # An added token includes the white space it absorbs.
            cut = self._words[word] if added_id is None else [(added_id, len(sources))]
            for token_id, end in cut:
                if end > begin:  # otherwise another byte of the same characters
                    previous, begin = begin, end
                pieces.append((token_id, sources[previous], sources[end - 1] + 1, word_count))
            word_count += 1
        return ChunkPieces.of(pieces, word_count)


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into groups of at most `_GROUP` characters, or of a single text."""
    first, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text)
        if size > _GROUP and index > first:
            yield texts[first:index]
            first, size = index, len(text)
    yield texts[first:]


def _all_chunks(texts: Iterable[Chunks]) -> Iterator[str]:
    return chain.from_iterable(chunks for chunks in texts if chunks)


def _first_chunks(texts: Iterable[Chunks]) -> dict[str, None]:
    """Return the distinct chunks that begin a text."""
    return dict.fromkeys(chunks[0] for chunks in texts if chunks)


def _many_are_new(sampled: Iterable[Chunks], known: Container[str]) -> bool:
    """Return whether many chunks are not known, estimated from one text in `_SAMPLE_EVERY`."""
    num_new = sum(chunk not in known for chunk in _all_chunks(sampled))
    return num_new * _SAMPLE_EVERY >= MIN_BATCH_WORDS


def _new_chunks(texts: Sequence[Chunks], known: Container[str]) -> list[str]:
    """Return the chunks that are not known, in text order, which keeps later look-ups local."""
    return [
        chunk
        for chunk in dict.fromkeys(_all_chunks(texts))
        if chunk not in known and len(chunk) <= MAX_BATCHED_CHUNK
    ]

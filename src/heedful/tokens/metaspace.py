"""Texts -> token ids by a unigram model: split into words (`splitting.py`), which are cut."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice
from typing import ClassVar

from heedful.tokens.clusters import cut_at_spaces
from heedful.tokens.encoder import (
    MAX_CHUNK,
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkPieces,
    Memory,
    pieces_of_chunks,
)
from heedful.tokens.pieces import PieceLists, Pieces
from heedful.tokens.plain_splitting import UNDERLINE
from heedful.tokens.splitting import Item, NotAloneError, Rules, Splitter
from heedful.tokens.unigram import MANY, Unigram
from heedful.tokens.vocabulary import Vocabulary

MAX_WORDS = 2**17
"""Words that are remembered before all are forgotten."""
MAX_LEARNT = 2**12
"""Characters of the longest chunk that is cut together with others."""

Chunks = list[str] | None
"""What a text is cut to; None if it has to be split as a whole."""

_GROUP = 2**18
"""Characters of the texts whose words are cut together."""
_PACE = 8
"""Of so many texts, one is looked at to tell whether the others are new."""


class UnigramEncoder:
    """Turns texts into ids.

    A chunk is what stands between two spaces. What becomes of it depends on nothing beside it, but
    for a few that have white space or added tokens at their ends. A text with one of these is
    worked out as a whole.

    Args:
        unigram: cuts words.
        rules: how a text is split into them.
        vocabulary: the tokens. Added ones are matched whole, before anything else is done.
    """

    writes_spaces: ClassVar[bool] = True

    def __init__(self, unigram: Unigram, rules: Rules, vocabulary: Vocabulary) -> None:
        self._splitter = Splitter(rules, vocabulary)
        self._bytes = unigram.bytes
        self._unigram = unigram
        self._words = Memory(unigram.cut, MAX_WORDS)
        self._plain_ids = Memory(self._ids_of_word, MAX_WORDS)
        self._first_ids = Memory(partial(self._ids_of, ""), MAX_CHUNKS)
        self._spaced_ids = Memory(partial(self._ids_of, " "), MAX_CHUNKS)
        self._first_pieces = Memory(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        self._spaced_pieces = Memory(partial(self._pieces_of, " "), MAX_LOCATED_CHUNKS)

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceLists:
        """Return the pieces of all texts, with offsets if ``located``."""
        if not located:
            return PieceLists.of(self.ids(texts))
        pieces: list[Pieces] = []
        for group in _groups(texts):
            long: Collection[str] = ()
            if _are_new(map(self._chunks, group[::_PACE]), self._spaced_pieces):
                long = self._learn_pieces([*map(self._chunks, group)])
            pieces += map(self.pieces, group)
            self._first_pieces.forget(long)
            self._spaced_pieces.forget(long)
        return PieceLists.of([one.ids for one in pieces], [one.offsets for one in pieces])

    def check_words(self) -> None:
        """Do nothing: texts can be given as words."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        ids: list[list[int]] = []
        for group in _groups(texts):
            chunks = [*map(self._chunks, group)]
            long: Collection[str] = ()
            if _are_new(chunks[::_PACE], self._spaced_ids):
                long = self._learn_ids(chunks)
            ids += map(self._text_ids, group, chunks)
            self._first_ids.forget(long)
            self._spaced_ids.forget(long)
        return ids

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of.

        A piece that begins with a space has it in its slice; of several spaces, the last.
        """
        splitter = self._splitter
        gone, left = splitter.trimmed(text)
        chunks = cut_at_spaces(left)
        try:
            if splitter.has_chunks(text) and splitter.ends_plainly(left):
                first = self._first_pieces[chunks[0]]
                located = [first, *map(self._spaced_pieces.__getitem__, islice(chunks, 1, None))]
            elif splitter.has_chunks(text):
                *others, last = chunks
                located = [self._first_pieces[others[0]]] if others else []
                located += map(self._spaced_pieces.__getitem__, islice(others, 1, None))
                located.append(self._pieces_of(" " if others else "", last, closed=True))
            else:
                raise NotAloneError
        except NotAloneError:
            gone, chunks, located = 0, [text], [self._located(splitter.items(text))]
        starts = accumulate((len(chunk) + 1 for chunk in chunks), initial=gone)
        return pieces_of_chunks(located, starts)

    def continues_word(self, token: str) -> bool:
        """Tell whether a token goes on with the word before it: it does not begin with a space."""
        return token not in self._splitter.added.ids and not token.startswith(UNDERLINE)

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens to the text they spell, U+FFFD for bytes that belong to no character."""
        of_byte, spelled = self._bytes, bytearray()
        for token in tokens:
            byte = of_byte.get(token)
            spelled += token.encode("utf-8") if byte is None else bytes((byte,))
        return spelled.decode("utf-8", "replace").replace(UNDERLINE, " ").removeprefix(" ")

    def _chunks(self, text: str) -> Chunks:
        splitter = self._splitter
        return cut_at_spaces(splitter.trimmed(text)[1]) if splitter.has_chunks(text) else None

    def _new_words(self, words: Iterable[list[str] | None], known: Container[str]) -> list[str]:
        """Return the words that are not known, without those that stand for added tokens."""
        token_ids = self._splitter.plain.token_ids
        unique = dict.fromkeys(chain.from_iterable(told for told in words if told))
        return [word for word in unique if word not in known and word not in token_ids]

    def _learn_ids(self, texts: Sequence[Chunks]) -> list[str]:
        """Remember the ids of chunks. Their words are cut together, once that pays.

        Returns:
            The chunks that are too long to be remembered for more than these texts.
        """
        plain, remembered = self._splitter.plain, self._spaced_ids
        chunks = _new_chunks(texts, remembered)
        words = list(plain.words_of(chunks))
        new = self._new_words(words, self._plain_ids)
        spelled = list(map(plain.spelled, new))
        ids: dict[str, tuple[int, ...]] = {}
        if trie := self._unigram.together(len(spelled)):
            cut = trie.ids(list(dict.fromkeys(spelled)))
            ids = {word: cut[one] for word, one in zip(new, spelled, strict=True) if one in cut}
        known = self._plain_ids
        known.remember({word: one for word, one in ids.items() if len(word) <= MAX_CHUNK})
        told = {chunk: some for chunk, some in zip(chunks, words, strict=True) if some}
        spaced: dict[str, tuple[int, ...]] = {}
        for chunk, some in told.items():
            parts = [ids[word] if word in ids else known[word] for word in some]
            spaced[chunk] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        remembered.remember(spaced)
        self._first_ids.remember(
            {
                chunk: spaced[chunk]
                for chunk in _firsts(texts)
                if chunk in told and plain.begins_alike(told[chunk])
            }
        )
        return [chunk for chunk in chunks if len(chunk) > MAX_CHUNK]

    def _learn_pieces(self, texts: Sequence[Chunks]) -> list[str]:
        """Remember the pieces of chunks in the same way."""
        plain, known, remembered = self._splitter.plain, self._words, self._spaced_pieces
        chunks = _new_chunks(texts, remembered)
        words = list(plain.words_of(chunks, even=True))
        spelled = dict.fromkeys(map(plain.spelled, self._new_words(words, ())))
        new = [word for word in spelled if word not in known]
        if trie := self._unigram.together(len(new)):
            known.remember(trie.cuts(new))
        told = {chunk: some for chunk, some in zip(chunks, words, strict=True) if some}
        remembered.remember(
            {chunk: self._plainly_located(some, spaced=True) for chunk, some in told.items()}
        )
        self._first_pieces.remember(
            {
                chunk: self._plainly_located(some, spaced=False)
                for chunk in _firsts(texts)
                if (some := told.get(chunk)) and plain.begins_alike(some)
            }
        )
        known.forget(word for word in new if len(word) > MAX_CHUNK)
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
            except NotAloneError:
                pass
        return self._item_ids(splitter.items(text))

    def _ids_of(self, before: str, chunk: str, *, closed: bool = False) -> tuple[int, ...]:
        words = None if closed else self._splitter.plain.words(before + chunk)
        if words is None:
            return tuple(self._item_ids(self._splitter.chunk_items(before, chunk, closed=closed)))
        return self._ids_of_words(words)

    def _ids_of_words(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the ids of words that were told the short way."""
        if len(words) == 1:
            return self._plain_ids[words[0]]
        return tuple(chain.from_iterable(map(self._plain_ids.__getitem__, words)))

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        plain = self._splitter.plain
        token_id = plain.token_ids.get(word)
        if token_id is not None:
            return (token_id,)
        return tuple([token_id for token_id, _ in self._unigram.cut(plain.spelled(word))])

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
        """Return the pieces of a chunk that was told as even; see `Splitter.plain_items`."""
        word, plain = words[0], self._splitter.plain
        if len(words) == 1 and word[0] == " " and word not in plain.token_ids:
            ids, behind = zip(*self._words[plain.spelled(word)], strict=True)
            # Unless one character is written in several tokens, each begins where another ends.
            if len(set(behind)) == len(behind):
                ends = [end - 1 for end in behind]
                begins = [-1, *ends[:-1]]
                if not spaced:  # what stands for the space is where the first character is
                    begins[0], ends[0] = 0, max(ends[0], 1)
                return ChunkPieces(ids, tuple(begins), tuple(ends), (0,) * len(ids), len(ids), 1)
        return self._located(self._splitter.plain_items(words, spaced=spaced))

    def _located(self, items: Iterable[Item]) -> ChunkPieces:
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        words: list[int] = []
        count = 0
        for word, sources, added_id in items:
            begin = previous = 0
            # With an added token goes the white space that it takes.
            cut = self._words[word] if added_id is None else [(added_id, len(sources))]
            for token_id, end in cut:
                if end > begin:  # else one more byte of the same characters
                    previous, begin = begin, end
                ids.append(token_id)
                begins.append(sources[previous])
                ends.append(sources[end - 1] + 1)
                words.append(count)
            count += 1
        return ChunkPieces(tuple(ids), tuple(begins), tuple(ends), tuple(words), len(ids), count)


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into groups of at most `_GROUP` characters, or of a single text."""
    first, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text)
        if size > _GROUP and index > first:
            yield texts[first:index]
            first, size = index, len(text)
    yield texts[first:]


def _all_chunks(texts: Iterable[Chunks]) -> Iterator[str]:
    return chain.from_iterable(chunks for chunks in texts if chunks)


def _firsts(texts: Iterable[Chunks]) -> dict[str, None]:
    """Return the chunks that begin a text, each once."""
    return dict.fromkeys(chunks[0] for chunks in texts if chunks)


def _are_new(some: Iterable[Chunks], known: Container[str]) -> bool:
    """Tell by one text in `_PACE` whether many chunks of all are not known."""
    count = sum(chunk not in known for chunk in _all_chunks(some))
    return count * _PACE >= MANY


def _new_chunks(texts: Sequence[Chunks], known: Container[str]) -> list[str]:
    """Return the chunks that are not known, in order: so what is looked up together is near."""
    return [
        chunk
        for chunk in dict.fromkeys(_all_chunks(texts))
        if chunk not in known and len(chunk) <= MAX_LEARNT
    ]

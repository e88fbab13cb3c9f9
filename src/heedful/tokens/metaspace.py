"""Texts -> token ids by a unigram model: split into words (`splitting.py`), which are cut."""

from collections.abc import Container, Iterable, Iterator, Sequence
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
            if self._are_new(group[::_PACE], self._spaced_pieces):
                self._learn_pieces(group)
            pieces += map(self.pieces, group)
        return PieceLists.of([one.ids for one in pieces], [one.offsets for one in pieces])

    def check_words(self) -> None:
        """Do nothing: texts can be given as words."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        ids: list[list[int]] = []
        for group in _groups(texts):
            if self._are_new(group[::_PACE], self._spaced_ids):
                self._learn_ids(group)
            ids += map(self._text_ids, group)
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

    def _chunks(self, text: str) -> list[str] | None:
        """Cut a text to chunks; None if it has to be split as a whole."""
        splitter = self._splitter
        return cut_at_spaces(splitter.trimmed(text)[1]) if splitter.has_chunks(text) else None

    def _all_chunks(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield what texts are cut to."""
        return chain.from_iterable(chunks for text in texts if (chunks := self._chunks(text)))

    def _are_new(self, some: Sequence[str], known: Container[str]) -> bool:
        """Tell by some texts whether many chunks of all are not known."""
        count = sum(chunk not in known for chunk in self._all_chunks(some))
        return count * _PACE >= MANY

    def _new_chunks(self, texts: Sequence[str], known: Container[str]) -> list[str]:
        """Return the chunks that are not known, in order: so what is looked up together is near."""
        return [
            chunk
            for chunk in dict.fromkeys(self._all_chunks(texts))
            if chunk not in known and len(chunk) < MAX_CHUNK
        ]

    def _new_words(self, words: Iterable[list[str] | None], known: Container[str]) -> list[str]:
        """Return the words that are not known, without those that stand for added tokens."""
        token_ids = self._splitter.plain.token_ids
        unique = dict.fromkeys(chain.from_iterable(told for told in words if told))
        return [word for word in unique if word not in known and word not in token_ids]

    def _learn_ids(self, texts: Sequence[str]) -> None:
        """Remember the ids of chunks. Their words are cut together, once that pays."""
        plain, known, remembered = self._splitter.plain, self._plain_ids, self._spaced_ids
        chunks = self._new_chunks(texts, remembered)
        words = list(plain.words_of(chunks))
        new = self._new_words(words, known)
        spelled = list(map(plain.spelled, new))
        if trie := self._unigram.together(len(spelled)):
            ids = map(trie.ids(list(dict.fromkeys(spelled))).get, spelled)
            pairs = zip(new, ids, strict=True)
            known.remember({word: one for word, one in pairs if one is not None})
        told = zip(chunks, words, strict=True)
        remembered.remember({chunk: self._ids_of_words(some) for chunk, some in told if some})

    def _learn_pieces(self, texts: Sequence[str]) -> None:
        """Remember the pieces of chunks in the same way."""
        plain, known, remembered = self._splitter.plain, self._words, self._spaced_pieces
        chunks = self._new_chunks(texts, remembered)
        words = list(plain.words_of(chunks, even=True))
        spelled = dict.fromkeys(map(plain.spelled, self._new_words(words, ())))
        new = [word for word in spelled if word not in known]
        if trie := self._unigram.together(len(new)):
            known.remember(trie.cuts(new))
        told = zip(chunks, words, strict=True)
        remembered.remember(
            {chunk: self._located(self._splitter.plain_items(some)) for chunk, some in told if some}
        )

    def _text_ids(self, text: str) -> list[int]:
        splitter, chunks = self._splitter, self._chunks(text)
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

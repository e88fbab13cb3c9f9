"""Texts -> token ids: greedy longest-match WordPiece (Devlin et al. 2019, Wu et al. 2016)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from heedful.tokens.characters import IDEOGRAPHS
from heedful.tokens.decode import tidy
from heedful.tokens.encoder import (
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkPieces,
    LateBulk,
    Memory,
    pieces_of_chunks,
    special_parts,
    special_pattern,
)
from heedful.tokens.normalize import Normalizer
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.bulk import BulkEncoder

PREFIX = "##"
MAX_WORD = 100
"""Characters of the longest word that is taken apart; a longer one is unknown."""
MAX_WORDS = 2**17
"""Words that are remembered besides those that are tokens, before they are forgotten."""
_CHUNK = re.compile(r"[^ \n]+")
"""What stands between spaces and line breaks."""


class WordPiece(dict[str, tuple[int, ...]]):
    """Word -> its token ids, worked out when first asked for. Forgetting changes no result.

    Args:
        ids: token -> id; tokens that begin with ``##`` go on inside a word.
        unknown_id: the one id of a word that cannot be put together from tokens.
        whole_words: words that are looked up whole, and unknown if they are not there.
    """

    def __init__(
        self, ids: Mapping[str, int], unknown_id: int, *, whole_words: Collection[str]
    ) -> None:
        self._heads = ids
        self._tails = {
            token[2:]: token_id for token, token_id in ids.items() if token.startswith(PREFIX)
        }
        self._unknown = (unknown_id,)
        self._longest = max(map(len, ids))
        self._known = {
            token: (token_id,) for token, token_id in ids.items() if len(token) <= MAX_WORD
        }
        self._known |= {word: (ids.get(word, unknown_id),) for word in whole_words}
        super().__init__(self._known)

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD:
            return self._unknown
        ids = self._pieces(word)
        if len(self) >= MAX_WORDS + len(self._known):
            self.clear()
            self.update(self._known)
        self[word] = ids
        return ids

    def _pieces(self, word: str) -> tuple[int, ...]:
        ids: list[int] = []
        tokens, start, length = self._heads, 0, len(word)
        while start < length:
            for end in range(min(length, start + self._longest), start, -1):
                token = tokens.get(word[start:end])
                if token is not None:
                    ids.append(token)
                    break
            else:
                return self._unknown
            tokens, start = self._tails, end
        return tuple(ids)


def piece_ends(tokens: Sequence[str], word: str) -> list[int]:
    """Return where in its word each token ends.

    A word of one token ends with it, also where that token is the unknown one.
    """
    if len(tokens) == 1:
        return [len(word)]
    ends, end = [], 0
    for number, token in enumerate(tokens):
        end += len(token) - (len(PREFIX) if number else 0)
        ends.append(end)
    return ends


class WordPieceEncoder:
    """Turns texts into ids.

    A chunk is what stands between two spaces. Nothing that the reference does to a text reaches
    across a space: words end there, special tokens hold none, and canonical order does not pass it.

    Args:
        normalizer: text -> words; those that it never splits are looked up whole.
        vocabulary: the tokens. Special ones are matched whole, before anything else is done.
    """

    writes_spaces: ClassVar[bool] = False

    def __init__(self, normalizer: Normalizer, vocabulary: Vocabulary) -> None:
        self._normalizer = normalizer
        self._special = vocabulary.special_ids()
        self._tokens = vocabulary.tokens
        unknown_id = vocabulary.ids[vocabulary.special.unk_token]
        base = vocabulary.base_ids()
        self._words = WordPiece(base, unknown_id, whole_words=normalizer.never_split)
        self._pattern = special_pattern(self._special)
        self._chunk_ids = Memory(self._ids_of, MAX_CHUNKS)
        self._chunk_pieces = Memory(self._pieces_of, MAX_LOCATED_CHUNKS)
        self._vocabulary = vocabulary
        # Arrays cut texts at ideographs, and know nothing of words that are told before the cut.
        pays = not normalizer.never_split and not any(
            ord(character) in IDEOGRAPHS for character in "".join(self._special)
        )
        self._bulk = LateBulk(self._made_bulk, pays=pays)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        pieces = self._bulk.encode(texts, located=False)
        return self._plain_ids(texts) if pieces is None else pieces.id_lists()

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""
        pieces = self._bulk.encode(texts, located=located)
        return self._plain(texts, located) if pieces is None else pieces

    def check_words(self) -> None:
        """Do nothing: texts can be given as words."""

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of."""
        # Matched rather than split at spaces, of which a text may have a million.
        chunks = list(_CHUNK.finditer(text))
        if not chunks:
            return Pieces(ids=[], offsets=[], words=[])
        pieces = (self._chunk_pieces[chunk[0]] for chunk in chunks)
        return pieces_of_chunks(pieces, (chunk.start() for chunk in chunks))

    def continues_word(self, token: str) -> bool:
        """Tell whether a token goes on with the word before it."""
        return token.startswith(PREFIX)

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens by spaces, pieces to their words, most punctuation to what it follows."""
        text = []
        for number, token in enumerate(tokens):
            if token.startswith(PREFIX):
                token = token.removeprefix(PREFIX) if number or not mark else token
            elif number:
                token = f" {token}"
            # Token by token, as the reference does, so that only a token's own start is closed up.
            text.append(tidy(token))
        return "".join(text)

    def _made_bulk(self) -> "BulkEncoder":
        from heedful.tokens.bulk import BulkEncoder
        from heedful.tokens.wordpiece_bulk import WordPieceSplitter

        splitter = WordPieceSplitter(self._normalizer, self._vocabulary)
        return BulkEncoder(
            splitter,
            splitter.lexicon(),
            chunk_ids=self._chunk_ids,
            chunk_pieces=self._chunk_pieces,
            plain=self._plain,
        )

    def _plain(self, texts: Sequence[str], located: bool) -> PieceLists:
        """Return the pieces of all texts, encoded one by one."""
        if not located:
            return PieceLists.of(self._plain_ids(texts))
        pieces = [self.pieces(text) for text in texts]
        return PieceLists.of([one.ids for one in pieces], [one.offsets for one in pieces])

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        ids = self._chunk_ids.__getitem__
        return [
            # A line break is a space too, and cutting there makes for chunks that come again.
            list(chain.from_iterable(map(ids, text.replace("\n", " ").split(" "))))
            for text in texts
        ]

    def _ids_of(self, chunk: str) -> tuple[int, ...]:
        if self._pattern.search(chunk):
            ids = [
                (self._special[part],) if special else self._ids_of(part)
                for part, special in special_parts(chunk, self._pattern)
            ]
            return tuple(chain.from_iterable(ids))
        words = self._normalizer.words(chunk)
        if len(words) == 1:
            return self._words[words[0]]
        return tuple(chain.from_iterable(map(self._words.__getitem__, words)))

    def _pieces_of(self, chunk: str) -> ChunkPieces:
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        words: list[int] = []
        count = 0
        for word_ids, word, sources in self._sourced_words(chunk):
            begin = 0
            for end in piece_ends([self._tokens[token_id] for token_id in word_ids], word):
                # Canonical order may have put a character before one that stood to its left.
                begins.append(min(sources[begin:end]))
                ends.append(max(sources[begin:end]) + 1)
                begin = end
            ids += word_ids
            words += [count] * len(word_ids)
            count += 1
        return ChunkPieces(tuple(ids), tuple(begins), tuple(ends), tuple(words), len(ids), count)

    def _sourced_words(self, chunk: str) -> Iterator[tuple[tuple[int, ...], str, list[int]]]:
        """Yield the ids, the text, and the places of the characters of each word of a chunk."""
        start = 0
        for part, special in special_parts(chunk, self._pattern):
            if special:
                yield (self._special[part],), part, list(range(start, start + len(part)))
            else:
                for word, sources in self._normalizer.sourced_words(part):
                    yield self._words[word], word, [start + index for index in sources]
            start += len(part)

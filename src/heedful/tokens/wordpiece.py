"""WordPiece tokenization: greedy longest match first (Devlin et al. 2019, Wu et al. 2016)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from heedful.tokens.added import AddedTokens, Part, without_white_space
from heedful.tokens.characters import IDEOGRAPHS
from heedful.tokens.decode import clean_up_spaces
from heedful.tokens.encoder import (
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkCache,
    ChunkPieces,
    LazyBulkEncoder,
    pieces_of_chunks,
)
from heedful.tokens.normalize import Normalizer, words_of_rewritten
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.bulk import BulkEncoder

PREFIX = "##"
MAX_WORD = 100
"""Characters of the longest word that is split into pieces; a longer word is unknown."""
MAX_WORDS = 2**17
"""Number of words to cache, besides words that are tokens, before the cache is cleared."""
_CHUNK = re.compile(r"[^ \n]+")
"""A run of characters without spaces and line breaks."""


class WordPiece(dict[str, tuple[int, ...]]):
    """A cache from words to their token ids. Clearing it changes no result.

    Args:
        ids: token -> id; tokens with the prefix ``##`` continue a word.
        unknown_id: the single id of a word that no sequence of tokens spells.
        whole_words: words that are never split; unknown if they are not in the vocabulary.
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
    """Return the end of each token within its word.

    A single token always ends at the end of the word, even if it is the unknown token.
    """
    if len(tokens) == 1:
        return [len(word)]
    ends, end = [], 0
    for position, token in enumerate(tokens):
        end += len(token) - (len(PREFIX) if position else 0)
        ends.append(end)
    return ends


class WordPieceEncoder:
    """Converts texts to token ids.

    A chunk is the text between two spaces. No step of the reference tokenizer crosses a space:
    words end at spaces, and canonical ordering stops there. Only an added token may contain spaces;
    then each text is one chunk.

    Args:
        normalizer: splits text into words; its ``never_split`` words are looked up whole.
        vocabulary: the tokens. Added tokens are matched whole, before a text is split into words.
    """

    writes_spaces: ClassVar[bool] = False

    def __init__(self, normalizer: Normalizer, vocabulary: Vocabulary) -> None:
        self._normalizer = normalizer
        self._added = AddedTokens(vocabulary, normalizer.rewritten)
        self._tokens = vocabulary.tokens
        unknown_id = vocabulary.ids[vocabulary.special.unk_token]
        base = vocabulary.base_ids()
        self._words = WordPiece(base, unknown_id, whole_words=normalizer.never_split)
        self._chunk_ids = ChunkCache(self._ids_of, MAX_CHUNKS)
        self._chunk_pieces = ChunkCache(self._pieces_of, MAX_LOCATED_CHUNKS)
        self._vocabulary = vocabulary
        characters = {*"".join(self._added.ids)}
        self._has_chunks = not any(normalizer.letter(character) == " " for character in characters)
        # The array encoder cuts texts at ideographs first, so it would cut inside added tokens
        # with ideographs, or hide them from a token that matches only as a whole word. It has no
        # support for words that are never split.
        pays = (
            self._has_chunks
            and not normalizer.never_split
            and not (normalizer.split_ideographs and self._added.need_whole_words)
            and not any(ord(character) in IDEOGRAPHS for character in characters)
        )
        self._bulk = LazyBulkEncoder(self._build_bulk, pays=pays)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        pieces = self._bulk.encode(texts, located=False)
        return self._plain_ids(texts) if pieces is None else pieces.id_lists()

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""
        pieces = self._bulk.encode(texts, located=located)
        return self._plain(texts, located) if pieces is None else pieces

    def check_words(self) -> None:
        """Do nothing: this encoder accepts texts that are split into words."""

    def pieces(self, text: str) -> Pieces:
        """Return the token ids of a text, with the offsets and the word index of each."""
        if not self._has_chunks:
            return pieces_of_chunks([self._chunk_pieces[text]], [0])
        # Match chunks rather than split at spaces: a text may hold a million spaces.
        chunks = list(_CHUNK.finditer(text))
        if not chunks:
            return Pieces(ids=[], offsets=[], words=[])
        pieces = (self._chunk_pieces[chunk[0]] for chunk in chunks)
        return pieces_of_chunks(pieces, (chunk.start() for chunk in chunks))

    def spelled(self, text: str) -> list[str]:
        """Return the tokens of a text."""
        return [self._tokens[token_id] for token_id in self.ids([text])[0]]

    def continues_word(self, token: str) -> bool:
        """Return whether a token continues the word before it."""
        return token.startswith(PREFIX)

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens with spaces. No space precedes a ``##`` piece or most punctuation."""
        text = []
        for position, token in enumerate(tokens):
            if token.startswith(PREFIX):
                token = token.removeprefix(PREFIX) if position or not mark else token
            elif position:
                token = f" {token}"
            # Like the reference, tidy each token separately, so that only its own spaces go.
            text.append(clean_up_spaces(token))
        return "".join(text)

    def _build_bulk(self) -> "BulkEncoder":
        from heedful.tokens.bulk import BulkEncoder
        from heedful.tokens.wordpiece_bulk import WordPieceSplitter

        splitter = WordPieceSplitter(self._normalizer, self._vocabulary, self._added)
        return BulkEncoder(
            splitter,
            splitter.lexicon(),
            chunk_ids=self._chunk_ids,
            chunk_pieces=self._chunk_pieces,
            plain=self._plain,
        )

    def _plain(self, texts: Sequence[str], located: bool) -> PieceLists:
        """Return the pieces of all texts, encoding one text at a time."""
        if not located:
            return PieceLists.of(self._plain_ids(texts))
        return PieceLists.of_texts([self.pieces(text) for text in texts])

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        ids = self._chunk_ids.__getitem__
        if not self._has_chunks:
            return [[*ids(text)] for text in texts]
        return [
            # A line break is a space too. Splitting at it yields chunks that recur more often.
            list(chain.from_iterable(map(ids, text.replace("\n", " ").split(" "))))
            for text in texts
        ]

    def _ids_of(self, chunk: str) -> tuple[int, ...]:
        if self._may_contain_added(chunk):
            return tuple(chain.from_iterable(ids for ids, _, _ in self._sourced_words(chunk)))
        words = self._normalizer.words(chunk)
        if len(words) == 1:
            return self._words[words[0]]
        return tuple(chain.from_iterable(map(self._words.__getitem__, words)))

    def _pieces_of(self, chunk: str) -> ChunkPieces:
        pieces: list[tuple[int, int, int, int]] = []
        word_count = 0
        for word_ids, word, sources in self._sourced_words(chunk):
            begin = 0
            word_ends = piece_ends([self._tokens[token_id] for token_id in word_ids], word)
            for token_id, end in zip(word_ids, word_ends, strict=True):
                # Canonical ordering may have swapped characters, so sources may not ascend.
                covered = sources[begin:end]
                pieces.append((token_id, min(covered), max(covered) + 1, word_count))
                begin = end
            word_count += 1
        return ChunkPieces.of(pieces, word_count)

    def _sourced_words(self, chunk: str) -> Iterator[tuple[tuple[int, ...], str, list[int]]]:
        """Yield the token ids, the text and the character positions of each word of a chunk."""
        for part in self._added.split_early(chunk):
            if part.token is not None:
                start, stop, _ = without_white_space(chunk, part)
                yield (self._added.ids[part.token],), chunk[start:stop], [*range(start, stop)]
                continue
            text = chunk[part.start : part.stop]
            for ids, word, sources in self._sourced_part(text):
                yield ids, word, [part.start + index for index in sources]

    def _sourced_part(self, text: str) -> Iterator[tuple[tuple[int, ...], str, list[int]]]:
        """Yield the words of a text between the added tokens that are not normalized."""
        late = [Part(0, len(text), None)]
        if self._added.late:
            rewritten, all_sources = self._normalizer.sourced(text)
            late = self._added.split_late(rewritten)
        if not any(part.token for part in late):
            for word, sources in self._normalizer.sourced_words(text):
                yield self._words[word], word, sources
            return
        for part in late:
            if part.token is None:
                gap = slice(part.start, part.stop)
                for word, sources in words_of_rewritten(rewritten[gap], all_sources[gap]):
                    yield self._words[word], word, sources
            else:
                start, stop, _ = without_white_space(rewritten, part)
                ids = (self._added.ids[part.token],)
                yield ids, rewritten[start:stop], all_sources[start:stop]

    def _may_contain_added(self, chunk: str) -> bool:
        added = self._added
        return bool(added.starts(chunk)) or bool(
            added.late and added.late_starts(self._normalizer.rewritten(chunk))
        )

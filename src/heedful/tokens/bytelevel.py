"""GPT-2's byte-level BPE (Radford et al. 2019): split words by a pattern, then merge their bytes.

The pattern matches, in this order: contractions; runs of letters, of numbers or of other
characters, each with one optional space before it; and white space. A run of white space before
other text excludes its last character.
"""

import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, ClassVar

from heedful.errors import UserError
from heedful.tokens.added import AddedTokens, without_white_space
from heedful.tokens.bpe import ALPHABET, BytePairs, spelled
from heedful.tokens.characters import LETTERS, NUMBERS, WHITE_SPACE
from heedful.tokens.encoder import (
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkCache,
    ChunkPieces,
    LazyBulkEncoder,
    pieces_of_chunks,
)
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.bulk import BulkEncoder

MAX_WORDS = 2**17
"""Number of words to cache before the cache is cleared."""

_SPACE = ALPHABET[ord(" ")]
_SPACES = {ALPHABET[ord(space)] for space in " \t\n\r\v\f"}

_cut_before_words = re.compile(r" (?=\S)").split
"""Splits a text at each space before a character that is not white space."""


def _pattern(letters: str, numbers: str, spaces: str) -> re.Pattern[str]:
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letters}]+| ?[{numbers}]+| ?[^{spaces}{letters}{numbers}]+"
        rf"|[{spaces}]+(?![^{spaces}])|[{spaces}]+"
    )


_ASCII = _pattern("A-Za-z", "0-9", r"\t-\r ")


@cache  # slow to compile
def _unicode() -> re.Pattern[str]:
    return _pattern(LETTERS.ranges(), NUMBERS.ranges(), WHITE_SPACE.ranges())


class ByteLevelEncoder:
    """Converts texts to token ids.

    Chunks are separated by spaces that precede a character other than white space. Such a space
    always begins a word. So the pieces of a chunk depend only on the chunk, and on whether a space
    or the start of the text precedes it.

    Args:
        vocabulary: the tokens. Added tokens are matched whole, before any other step.
        merges: see `BytePairs`.
        add_prefix_space: whether to insert a space before a text, and after an added token, if
            there is none.
        trim_offsets: whether offsets exclude spaces at both ends of a piece. A piece of only
            spaces then gets an empty slice at its end.

    Raises:
        UserError: see `BytePairs`.
    """

    writes_spaces: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Sequence[tuple[str, str]],
        *,
        add_prefix_space: bool,
        trim_offsets: bool = True,
    ) -> None:
        self._prefix = add_prefix_space
        self._trim = trim_offsets
        self._added = AddedTokens(vocabulary)
        self._tokens = vocabulary.tokens
        self._pairs = BytePairs(vocabulary.ids, merges, source=vocabulary.source)
        self._words = ChunkCache(self._ids_of_word, MAX_WORDS)
        self._word_pieces = ChunkCache(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        # The array encoder recognizes an added token only by its own text.
        pays = not (self._added.need_whole_words or (self._added.take_spaces and not trim_offsets))
        self._bulk = LazyBulkEncoder(self._build_bulk, pays=pays)
        self._first_ids = ChunkCache(partial(self._ids_of, ""), MAX_CHUNKS)
        self._spaced_ids = ChunkCache(partial(self._ids_of, " "), MAX_CHUNKS)
        self._first_pieces = ChunkCache(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        self._spaced_pieces = ChunkCache(partial(self._pieces_of, " "), MAX_LOCATED_CHUNKS)

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""
        pieces = self._bulk.encode(texts, located=located)
        return self._plain(texts, located) if pieces is None else pieces

    def check_words(self) -> None:
        """Check that this encoder accepts texts that are split into words.

        Raises:
            UserError: the encoder inserts no space before words.
        """
        if not self._prefix:
            raise UserError(
                "is_split_into_words=True needs a tokenizer with add_prefix_space=True: with no "
                "space before them, words have other tokens"
            )

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        pieces = self._bulk.encode(texts, located=False)
        return self._plain_ids(texts) if pieces is None else pieces.id_lists()

    def pieces(self, text: str) -> Pieces:
        """Return the token ids of a text, with the offsets and the word index of each.

        Offsets may exclude spaces at the ends of a piece; see the class.
        """
        chunks: list[ChunkPieces] = []
        starts: list[int] = []
        for one in self._added.split(text):
            if one.token is not None:
                start, stop, _ = without_white_space(text, one) if self._trim else one
                chunks.append(self._token_pieces(one.token, stop - start))
                starts.append(start)
                continue
            start, part = one.start, text[one.start : one.stop]
            parts = _chunks(part)
            first = self._first_pieces[parts[0]]
            if self._is_prefixed(part):
                first = self._spaced_pieces[parts[0]]
                # The inserted space is not in the text.
                begins, ends = (
                    tuple(max(index, 0) for index in indices)
                    for indices in (first.begins, first.ends)
                )
                first = first._replace(begins=begins, ends=ends)
            chunks += [first, *map(self._spaced_pieces.__getitem__, islice(parts, 1, None))]
            starts += islice(accumulate((len(one) + 1 for one in parts), initial=start), len(parts))
        return pieces_of_chunks(chunks, starts)

    def spelled(self, text: str) -> list[str]:
        """Return the tokens of a text."""
        return [self._tokens[token_id] for token_id in self.ids([text])[0]]

    def continues_word(self, token: str) -> bool:
        """Return whether a token continues the word before it, so has no leading white space."""
        return token not in self._added.ids and token[:1] not in _SPACES

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens into the text they spell, with U+FFFD for invalid bytes."""
        text = spelled(tokens).decode("utf-8", "replace")
        return text if mark else text.removeprefix(" ")

    def _token_pieces(self, token: str, size: int) -> ChunkPieces:
        return ChunkPieces((self._added.ids[token],), (0,), (size,), (0,), 1, 1)

    def _plain(self, texts: Sequence[str], located: bool) -> PieceLists:
        """Return the pieces of all texts, encoding one text at a time."""
        if not located:
            return PieceLists.of(self._plain_ids(texts))
        return PieceLists.of_texts([self.pieces(text) for text in texts])

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        has_added = self._added.may_contain
        return [
            self._split_ids(text) if has_added(text) else self._part_ids(text) for text in texts
        ]

    def _split_ids(self, text: str) -> list[int]:
        """Return the token ids of a text with added tokens."""
        ids: list[int] = []
        for start, stop, token in self._added.split(text):
            ids += self._part_ids(text[start:stop]) if token is None else [self._added.ids[token]]
        return ids

    def _part_ids(self, part: str) -> list[int]:
        """Return the token ids of a text or a part of it, without special tokens."""
        chunks, spaced = _chunks(part), self._spaced_ids.__getitem__
        if self._is_prefixed(part):
            return list(chain.from_iterable(map(spaced, chunks)))
        ids = list(self._first_ids[chunks[0]])
        ids.extend(chain.from_iterable(map(spaced, islice(chunks, 1, None))))
        return ids

    def _build_bulk(self) -> "BulkEncoder":
        from heedful.tokens.bulk import BulkEncoder
        from heedful.tokens.bytelevel_bulk import ByteLevelSplitter, byte_lexicon

        splitter = ByteLevelSplitter(self._added, prefix=self._prefix)
        return BulkEncoder(
            splitter,
            byte_lexicon(self._added, self._pairs, trim=self._trim),
            chunk_ids=self._words,
            chunk_pieces=self._word_pieces,
            plain=self._plain,
        )

    def _is_prefixed(self, part: str) -> bool:
        return self._prefix and part[:1] not in ("", " ")

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        return self._pairs.ids(word.encode("utf-8", "ignore"))  # without lone surrogates

    def _ids_of(self, before: str, chunk: str) -> tuple[int, ...]:
        """Return the token ids of a chunk; ``before`` is a space or empty."""
        words = _words(before + chunk)
        if len(words) == 1:
            return self._words[words[0]]
        return tuple(chain.from_iterable(map(self._words.__getitem__, words)))

    def _pieces_of(self, before: str, chunk: str) -> ChunkPieces:
        """Return the pieces of a chunk; ``before`` is a space, at offset -1, or empty."""
        pieces: list[tuple[int, int, int, int]] = []
        word_count, start = 0, -len(before)
        for word in _words(before + chunk):
            sources = [
                index
                for index, character in enumerate(word)
                for _ in character.encode("utf-8", "ignore")
            ]
            first = 0
            for token_id in self._words[word]:
                token = self._tokens[token_id]
                last, spaces = first + len(token), 0
                if self._trim and token.strip(_SPACE):
                    last = first + len(token.rstrip(_SPACE))
                    spaces = len(token) - len(token.lstrip(_SPACE))
                end = start + sources[last - 1] + 1
                is_blank = self._trim and not token.strip(_SPACE)
                begin = end if is_blank else start + sources[first + spaces]
                pieces.append((token_id, begin, end, word_count))
                first += len(token)
            word_count += bool(sources)
            start += len(word)
        return ChunkPieces.of(pieces, word_count)


def _words(text: str) -> list[str]:
    pattern = _ASCII if text.isascii() else _unicode()
    return pattern.findall(text)


def _chunks(text: str) -> list[str]:
    # In a printable text, the only white space is U+0020.
    if text.isprintable() and "  " not in text:
        return text.split(" ")
    return _cut_before_words(text)

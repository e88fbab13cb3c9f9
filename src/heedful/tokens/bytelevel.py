"""Texts -> token ids as GPT-2 does it (Radford et al. 2019): words told by a pattern, then bytes.

The pattern takes contractions, then runs of letters, of numbers, of other characters, each with one
space before it, then white space, of which the last character is left for what follows.
"""

import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, ClassVar

from heedful.errors import UserError
from heedful.tokens.added import AddedTokens, bare
from heedful.tokens.bpe import ALPHABET, BytePairs, spelled
from heedful.tokens.characters import LETTERS, NUMBERS, WHITE_SPACE
from heedful.tokens.encoder import (
    MAX_CHUNKS,
    MAX_LOCATED_CHUNKS,
    ChunkPieces,
    LateBulk,
    Memory,
    pieces_of_chunks,
)
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.bulk import BulkEncoder

MAX_WORDS = 2**17
"""Words that are remembered before all are forgotten."""

_SPACE = ALPHABET[ord(" ")]
_SPACES = {ALPHABET[ord(space)] for space in " \t\n\r\v\f"}

_cut_before_words = re.compile(r" (?=\S)").split
"""Cuts a text at each space before a character that is not white space."""


def _pattern(letters: str, numbers: str, spaces: str) -> re.Pattern[str]:
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letters}]+| ?[{numbers}]+| ?[^{spaces}{letters}{numbers}]+"
        rf"|[{spaces}]+(?![^{spaces}])|[{spaces}]+"
    )


_ASCII = _pattern("A-Za-z", "0-9", r"\t-\r ")


@cache  # it takes a while to be made
def _unicode() -> re.Pattern[str]:
    return _pattern(LETTERS.ranges(), NUMBERS.ranges(), WHITE_SPACE.ranges())


class ByteLevelEncoder:
    """Turns texts into ids.

    A chunk is what stands between two spaces of which the second is followed by something else than
    white space: whatever is before it, that space begins a word. So a chunk has other pieces at the
    start of a text than behind a space, but none that depend on anything else.

    Args:
        vocabulary: the tokens. Added ones are matched whole, before anything else is done.
        merges: see `BytePairs`.
        add_prefix_space: whether a text, and what follows an added token, begins with a space
            even where it does not.
        trim_offsets: whether spaces at the ends of a piece are left out of its slice; of one that
            is nothing but spaces, the end alone is left.

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
        self._words = Memory(self._ids_of_word, MAX_WORDS)
        self._word_pieces = Memory(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        # Arrays know an added token by its text alone.
        pays = not (self._added.take_neighbours or (self._added.take_spaces and not trim_offsets))
        self._bulk = LateBulk(self._made_bulk, pays=pays)
        self._first_ids = Memory(partial(self._ids_of, ""), MAX_CHUNKS)
        self._spaced_ids = Memory(partial(self._ids_of, " "), MAX_CHUNKS)
        self._first_pieces = Memory(partial(self._pieces_of, ""), MAX_LOCATED_CHUNKS)
        self._spaced_pieces = Memory(partial(self._pieces_of, " "), MAX_LOCATED_CHUNKS)

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""
        pieces = self._bulk.encode(texts, located=located)
        return self._plain(texts, located) if pieces is None else pieces

    def check_words(self) -> None:
        """See to it that texts can be given as words.

        Raises:
            UserError: no space is put before words.
        """
        if not self._prefix:
            raise UserError(
                "is_split_into_words=True needs a tokenizer with add_prefix_space=True: with no "
                "space before them, words have other tokens"
            )

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        pieces = self._bulk.encode(texts, located=False)
        return self._plain_ids(texts) if pieces is None else pieces.id_lists()

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of.

        Spaces at the ends of a piece may be left out of its slice; see the class.
        """
        chunks: list[ChunkPieces] = []
        starts: list[int] = []
        for one in self._added.split(text):
            if one.token is not None:
                start, stop, _ = bare(text, one) if self._trim else one
                chunks.append(self._token_pieces(one.token, stop - start))
                starts.append(start)
                continue
            start, part = one.start, text[one.start : one.stop]
            parts = _chunks(part)
            first = self._first_pieces[parts[0]]
            if self._is_prefixed(part):
                first = self._spaced_pieces[parts[0]]
                # The space that is put before it is not in the text.
                begins, ends = (
                    tuple(max(index, 0) for index in places)
                    for places in (first.begins, first.ends)
                )
                first = first._replace(begins=begins, ends=ends)
            chunks += [first, *map(self._spaced_pieces.__getitem__, islice(parts, 1, None))]
            starts += islice(accumulate((len(one) + 1 for one in parts), initial=start), len(parts))
        return pieces_of_chunks(chunks, starts)

    def continues_word(self, token: str) -> bool:
        """Tell whether a token goes on with the word before it: it begins with no white space."""
        return token not in self._added.ids and token[:1] not in _SPACES

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens to the text they spell, U+FFFD for bytes that belong to no character."""
        text = spelled(tokens).decode("utf-8", "replace")
        return text if mark else text.removeprefix(" ")

    def _token_pieces(self, token: str, size: int) -> ChunkPieces:
        return ChunkPieces((self._added.ids[token],), (0,), (size,), (0,), 1, 1)

    def _plain(self, texts: Sequence[str], located: bool) -> PieceLists:
        """Return the pieces of all texts, encoded one by one."""
        if not located:
            return PieceLists.of(self._plain_ids(texts))
        pieces = [self.pieces(text) for text in texts]
        return PieceLists.of([one.ids for one in pieces], [one.offsets for one in pieces])

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        has_added = self._added.are_in
        return [
            self._ids_around(text) if has_added(text) else self._ids_between(text) for text in texts
        ]

    def _ids_around(self, text: str) -> list[int]:
        """Return the ids of a text with added tokens."""
        ids: list[int] = []
        for start, stop, token in self._added.split(text):
            ids += (
                self._ids_between(text[start:stop]) if token is None else [self._added.ids[token]]
            )
        return ids

    def _ids_between(self, part: str) -> list[int]:
        """Return the ids of a text, or a part of one, without special tokens."""
        chunks, spaced = _chunks(part), self._spaced_ids.__getitem__
        if self._is_prefixed(part):
            return list(chain.from_iterable(map(spaced, chunks)))
        ids = list(self._first_ids[chunks[0]])
        ids.extend(chain.from_iterable(map(spaced, islice(chunks, 1, None))))
        return ids

    def _made_bulk(self) -> "BulkEncoder":
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
        """Return the ids of a chunk behind nothing or a space."""
        words = _words(before + chunk)
        if len(words) == 1:
            return self._words[words[0]]
        return tuple(chain.from_iterable(map(self._words.__getitem__, words)))

    def _pieces_of(self, before: str, chunk: str) -> ChunkPieces:
        """Return the pieces of a chunk behind nothing or a space, which stands at -1."""
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        words: list[int] = []
        count, start = 0, -len(before)
        for word in _words(before + chunk):
            sources = [
                index for index, one in enumerate(word) for _ in one.encode("utf-8", "ignore")
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
                ids.append(token_id)
                begins.append(end if is_blank else start + sources[first + spaces])
                ends.append(end)
                words.append(count)
                first += len(token)
            count += bool(sources)
            start += len(word)
        return ChunkPieces(tuple(ids), tuple(begins), tuple(ends), tuple(words), len(ids), count)


def _words(text: str) -> list[str]:
    pattern = _ASCII if text.isascii() else _unicode()
    return pattern.findall(text)


def _chunks(text: str) -> list[str]:
    # In what is printable, the only white space is U+0020.
    if text.isprintable() and "  " not in text:
        return text.split(" ")
    return _cut_before_words(text)

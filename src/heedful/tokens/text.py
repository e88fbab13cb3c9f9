"""The lossless tokenizer of models that generate text: decoding restores the exact text.

As in Wu et al. 2016 (section 4.1), ``▁`` at the start of a piece stands for a space before it. The
first word of a text gets a ``▁`` too. So spaces are part of the pieces, and joining pieces restores
the text. Each word, up to the next space, is split into the longest pieces from left to right. A
character without a piece is written as its UTF-8 bytes (``<0xE2>`` ...), so every text can be
encoded.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from heedful.errors import UserError
from heedful.tokens.encoder import MAX_CHUNKS, ChunkCache

SPACE = "▁"
"""Marks a space at the start of a piece. In a text, this character itself is written as bytes."""
EOS, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
SPECIAL = (EOS, UNKNOWN, PAD)
"""The end of a text, the unknown token (for folders of other libraries only), and padding. A
decoder starts with the padding token."""
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
MAX_PIECE = 64
"""Characters of the longest piece, including ``▁``. ``sentencepiece``, to whose format these pieces
are exported, considers at most this many pieces that match at one position."""

_LONE = re.compile("[\udc80-\udcff]")
"""The characters to which Python decodes invalid bytes."""


class TokenBytes:
    """The bytes each token spells: a space for ``▁``, one byte for ``<0x00>`` etc., else itself.

    Args:
        tokens: the tokens, in the order of their ids. Special tokens spell nothing.
        with_bytes: whether ``<0x00>`` to ``<0xFF>`` stand for bytes.
        exact: whether to strip only the space before the first piece. Otherwise, strip all white
            space at both ends.
    """

    def __init__(self, tokens: Iterable[str], *, with_bytes: bool, exact: bool) -> None:
        self._exact = exact
        spelt = dict.fromkeys(SPECIAL, b"")
        if with_bytes:
            spelt |= {token: bytes([byte]) for byte, token in enumerate(BYTES)}
        self._token_bytes = [
            spelt[token] if token in spelt else token.replace(SPACE, " ").encode()
            for token in tokens
        ]

    def text(self, ids: Iterable[int]) -> str:
        """Return the text that ids spell, with U+FFFD for each invalid byte."""
        text = self._joined(ids)
        begin, end = self._text_bounds(text)
        return _LONE.sub("\ufffd", text[begin:end])

    def slices(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return the slice of the text that each id spells.

        A slice excludes the space before a piece, unless the piece is only that space. All bytes of
        a character have the character's slice. Special tokens have an empty slice.
        """
        ids = list(ids)
        text = self._joined(ids)
        start, stop = self._text_bounds(text)
        kept = [min(max(index, start), stop) - start for index in range(len(text) + 1)]
        owners = [
            index
            for index, character in enumerate(text)
            for _ in character.encode(errors="surrogateescape")
        ]
        owners.append(len(text))  # for a token at the very end that spells nothing
        slices, begin = [], 0
        for spelt in map(self._token_bytes.__getitem__, ids):
            end = begin + len(spelt)
            first = owners[begin + (len(spelt) > 1 and spelt.startswith(b" "))]
            last = owners[end - 1] + 1 if spelt else first
            slices.append((kept[first], kept[last]))
            begin = end
        return slices

    def _text_bounds(self, text: str) -> tuple[int, int]:
        """Return the start and end of the text within the string that its pieces spell."""
        if self._exact:
            return int(text.startswith(" ")), len(text)
        begin = len(text) - len(text.lstrip())
        return begin, max(begin, len(text.rstrip()))

    def _joined(self, ids: Iterable[int]) -> str:
        spelt = self._token_bytes
        return b"".join([spelt[token_id] for token_id in ids]).decode(errors="surrogateescape")


class TextTokenizer:
    """Encodes texts to ids and decodes ids to the same texts.

    Args:
        tokens: the special tokens, the 256 bytes, ``▁``, and further pieces, in the order of their
            ids. A piece contains no space, and ``▁`` only at its start.
        source: where the tokens come from, for messages.

    Attributes:
        tokens: the tokens, in the order of their ids.
        ids: token -> id.

    Raises:
        UserError: a token is missing, occurs twice, or cannot be a piece of a text.
    """

    def __init__(self, tokens: Iterable[str], *, source: str = "vocabulary") -> None:
        self.tokens: Sequence[str] = list(tokens)
        self.ids: dict[str, int] = {token: token_id for token_id, token in enumerate(self.tokens)}
        _check(self.tokens, self.ids, source)
        self.eos_token_id = self.ids[EOS]
        self.unk_token_id = self.ids[UNKNOWN]
        self.pad_token_id = self.ids[PAD]
        pieces = self.ids.keys() - {*SPECIAL, *BYTES}
        self._heads = {piece[1:]: self.ids[piece] for piece in pieces if piece[0] == SPACE}
        self._tails = {piece: self.ids[piece] for piece in pieces if piece[0] != SPACE}
        self._longest = max(map(len, pieces))
        self._byte_ids = [self.ids[byte] for byte in BYTES]
        self._spelling = TokenBytes(self.tokens, with_bytes=True, exact=True)
        self._words = ChunkCache(self._ids_of, MAX_CHUNKS)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens; empty for an empty text.

        Raises:
            UserError: a text contains a lone surrogate, which is not a character.
        """
        ids = self._words.__getitem__
        return [
            list(chain.from_iterable(map(ids, text.split(" ")))) if text else [] for text in texts
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text. Special tokens are dropped, and invalid bytes become U+FFFD."""
        return self._spelling.text(ids)

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the slice of ``decode(ids)`` that each id spells; see `TokenBytes.slices`."""
        return self._spelling.slices(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [self.tokens[token_id] for token_id in ids]

    def language_code(self, text: str) -> str:
        """Return "": texts have no language code as prefix; see `MarianText`."""
        return ""

    def _ids_of(self, word: str) -> tuple[int, ...]:
        """Return the token ids of a space and the word after it: longest match first."""
        end = min(len(word), self._longest)
        while word[:end] not in self._heads:  # the space alone always matches
            end -= 1
        ids = [self._heads[word[:end]]]
        while end < len(word):
            start = end
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._tails.get(word[start:end])
                if piece is not None:
                    ids.append(piece)
                    break
            else:  # no piece matches, and `end` is after the first character
                ids += [self._byte_ids[byte] for byte in utf8(word[start], of=word)]
        return tuple(ids)


def utf8(text: str, *, of: str) -> bytes:
    """Encode a text as UTF-8.

    Args:
        text: the text.
        of: the whole text, for the message.

    Raises:
        UserError: the text contains a lone surrogate, which is not a character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{of!r:.60}: contains U+{ord(text[error.start]):04X}, a lone surrogate, which is no "
            "character; correct the text or its decoding"
        ) from None


def _check(tokens: Sequence[str], ids: dict[str, int], source: str) -> None:
    if len(ids) < len(tokens):
        duplicate = next(token for token_id, token in enumerate(tokens) if ids[token] != token_id)
        raise UserError(
            f"{source}: {duplicate!r} has the ids {tokens.index(duplicate)} and {ids[duplicate]}"
        )
    for token in (*SPECIAL, SPACE, *BYTES):
        if token not in ids:
            raise UserError(f"{source}: {token!r} is missing; every text needs it")
    for token in tokens:
        if (
            not 1 <= len(token) <= MAX_PIECE
            or SPACE in token[1:]
            or any(character == " " or "\ud800" <= character <= "\udfff" for character in token)
        ):
            raise UserError(
                f"{source}: {token!r:.80} is not a piece of text: expected 1 to {MAX_PIECE} "
                f"characters, no space, and {SPACE} at most in front"
            )

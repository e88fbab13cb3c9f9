"""Text -> pieces -> the same text: the tokenizer of models that write text.

A piece that begins with ``▁`` has a space before it, as in Wu et al. 2016 (section 4.1), and the
text's first word has one, too. So spaces are part of the pieces, and pieces joined are the text as
it was. Each word, with all that follows it up to the next space, is cut into the longest pieces
from left to right. A character without a piece is written as the bytes of its UTF-8, ``<0xE2>`` and
so on, which makes every text one that can be written.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from heedful.errors import UserError
from heedful.tokens.encoder import MAX_CHUNKS, Memory

SPACE = "▁"
"""Stands for a space at the start of a piece. Where a text holds it, its bytes are written."""
EOS, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
SPECIAL = (EOS, UNKNOWN, PAD)
"""They end a text, stand for what folders of others lack, and fill rows up; a decoder starts with
the last one."""
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
MAX_PIECE = 64
"""Characters of the longest piece, ``▁`` included. Of pieces that begin alike ``sentencepiece``, in
whose files they are handed on, sees this many."""

_LONE = re.compile("[\udc80-\udcff]")
"""What Python decodes a byte to that belongs to no character."""


class Spelling:
    """What each token spells: a space for ``▁``, a byte for ``<0x00>`` and so on, else itself.

    Args:
        tokens: the tokens, in the order of their ids; the special ones spell nothing.
        with_bytes: whether ``<0x00>`` to ``<0xFF>`` stand for bytes.
        exact: whether a text loses only the space before its first piece; else all space around.
    """

    def __init__(self, tokens: Iterable[str], *, with_bytes: bool, exact: bool) -> None:
        self._exact = exact
        spelt = dict.fromkeys(SPECIAL, b"")
        if with_bytes:
            spelt |= {token: bytes([byte]) for byte, token in enumerate(BYTES)}
        self._spelt = [
            spelt[token] if token in spelt else token.replace(SPACE, " ").encode()
            for token in tokens
        ]

    def text(self, ids: Iterable[int]) -> str:
        """Return what ids spell; U+FFFD for each byte that belongs to no character."""
        text = self._joined(ids)
        begin, end = self._kept(text)
        return _LONE.sub("\ufffd", text[begin:end])

    def slices(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return which slice of their text each id stands for.

        The space before a piece is left out, unless the piece is that space. The bytes of one
        character all have its slice; special tokens have an empty one.
        """
        ids = list(ids)
        text = self._joined(ids)
        start, stop = self._kept(text)
        kept = [min(max(index, start), stop) - start for index in range(len(text) + 1)]
        owners = [
            index for index, one in enumerate(text) for _ in one.encode(errors="surrogateescape")
        ]
        owners.append(len(text))  # what spells nothing at the very end is there
        slices, begin = [], 0
        for spelt in map(self._spelt.__getitem__, ids):
            end = begin + len(spelt)
            first = owners[begin + (len(spelt) > 1 and spelt.startswith(b" "))]
            last = owners[end - 1] + 1 if spelt else first
            slices.append((kept[first], kept[last]))
            begin = end
        return slices

    def _kept(self, text: str) -> tuple[int, int]:
        """Return where the text starts and ends within what its pieces spell."""
        if self._exact:
            return int(text.startswith(" ")), len(text)
        begin = len(text) - len(text.lstrip())
        return begin, max(begin, len(text.rstrip()))

    def _joined(self, ids: Iterable[int]) -> str:
        spelt = self._spelt
        return b"".join([spelt[token_id] for token_id in ids]).decode(errors="surrogateescape")


class TextTokenizer:
    """Turns texts into ids and ids into texts, each the inverse of the other.

    Args:
        tokens: the special tokens, the 256 bytes, ``▁``, and further pieces, in the order of their
            ids. A piece holds no space, and ``▁`` only in front.
        source: where the tokens are from, for messages.

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
        self._spelling = Spelling(self.tokens, with_bytes=True, exact=True)
        self._words = Memory(self._ids_of, MAX_CHUNKS)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens; none for the empty text.

        Raises:
            UserError: a text holds half of a surrogate pair, which is no character.
        """
        ids = self._words.__getitem__
        return [
            list(chain.from_iterable(map(ids, text.split(" ")))) if text else [] for text in texts
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids. Special tokens give nothing, bytes of no character U+FFFD."""
        return self._spelling.text(ids)

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return which slice of ``decode(ids)`` each id stands for; see `Spelling.slices`."""
        return self._spelling.slices(ids)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [self.tokens[token_id] for token_id in ids]

    def language_code(self, text: str) -> str:
        """Return "": no text begins with a code that chooses a language; see `MarianText`."""
        return ""

    def _ids_of(self, word: str) -> tuple[int, ...]:
        """Return the ids of a space and the word behind it: longest match first."""
        end = min(len(word), self._longest)
        while word[:end] not in self._heads:  # the space alone is
            end -= 1
        ids = [self._heads[word[:end]]]
        while end < len(word):
            start = end
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._tails.get(word[start:end])
                if piece is not None:
                    ids.append(piece)
                    break
            else:  # at the end of the first character
                ids += [self._byte_ids[byte] for byte in utf8(word[start], of=word)]
        return tuple(ids)


def utf8(text: str, *, of: str) -> bytes:
    """Return the UTF-8 of a text.

    Args:
        text: the text.
        of: the whole text, for the message.

    Raises:
        UserError: it holds half of a surrogate pair, which is no character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{of!r:.60}: holds U+{ord(text[error.start]):04X}, half of a surrogate pair and no "
            "character; mend the text, or what decoded it"
        ) from None


def _check(tokens: Sequence[str], ids: dict[str, int], source: str) -> None:
    if len(ids) < len(tokens):
        twice = next(token for token_id, token in enumerate(tokens) if ids[token] != token_id)
        raise UserError(f"{source}: {twice!r} has the ids {tokens.index(twice)} and {ids[twice]}")
    for token in (*SPECIAL, SPACE, *BYTES):
        if token not in ids:
            raise UserError(f"{source}: {token!r} is missing; every text needs it")
    for token in tokens:
        if (
            not 1 <= len(token) <= MAX_PIECE
            or SPACE in token[1:]
            or any(one == " " or "\ud800" <= one <= "\udfff" for one in token)
        ):
            raise UserError(
                f"{source}: {token!r:.80} is not a piece of text: expected 1 to {MAX_PIECE} "
                f"characters, no space, and {SPACE} at most in front"
            )

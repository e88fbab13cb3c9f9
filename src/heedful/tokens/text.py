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
"""Stands for a space, at the start of a piece. This character itself is written in bytes."""
EOS, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
SPECIAL = (EOS, UNKNOWN, PAD)
"""Ends each text; stands for nothing here, and for what they lack in folders of others; fills rows
up, and starts what a decoder writes."""
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
MAX_PIECE = 64
"""Characters of the longest piece, ``▁`` included. Of pieces that begin alike ``sentencepiece``, in
whose files they are handed on, sees this many."""

_LONE = re.compile("[\udc80-\udcff]")
"""What Python makes of a byte that belongs to no character."""


class TextTokenizer:
    """Turns texts into ids and ids into texts, each the inverse of the other.

    Args:
        tokens: the special tokens, the 256 bytes, ``▁``, and further pieces, of which none holds a
            space and none a ``▁`` but in front. A token's id is its place.
        source: where the tokens are from, for messages.

    Attributes:
        tokens: the tokens, in the order of their ids.
        ids: token -> id.

    Raises:
        UserError: a token is missing, stands there twice, or is none that a text is cut into.
    """

    def __init__(self, tokens: Iterable[str], *, source: str = "vocabulary") -> None:
        self.tokens: Sequence[str] = list(tokens)
        self.ids: dict[str, int] = {token: at for at, token in enumerate(self.tokens)}
        _check(self.tokens, self.ids, source)
        self.eos_token_id = self.ids[EOS]
        self.unk_token_id = self.ids[UNKNOWN]
        self.pad_token_id = self.ids[PAD]
        pieces = self.ids.keys() - {*SPECIAL, *BYTES}
        self._heads = {piece[1:]: self.ids[piece] for piece in pieces if piece[0] == SPACE}
        self._tails = {piece: self.ids[piece] for piece in pieces if piece[0] != SPACE}
        self._longest = max(map(len, pieces))
        self._byte_ids = [self.ids[byte] for byte in BYTES]
        spelt = {byte: bytes([value]) for value, byte in enumerate(BYTES)}
        spelt |= dict.fromkeys(SPECIAL, b"")
        self._spelt = [
            spelt[token] if token in spelt else token.replace(SPACE, " ").encode()
            for token in self.tokens
        ]
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
        spelt = self._spelt
        text = b"".join([spelt[at] for at in ids]).decode(errors="surrogateescape")
        return _LONE.sub("\ufffd", text).removeprefix(" ")

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return which slice of ``decode(ids)`` each id stands for.

        The space before a piece is left out, unless the piece is that space. The bytes of one
        character all have its slice; special tokens have an empty one.
        """
        spelt = [self._spelt[at] for at in ids]
        text = b"".join(spelt).decode(errors="surrogateescape")
        dropped = int(text.startswith(" "))
        owners = [at for at, one in enumerate(text) for _ in one.encode(errors="surrogateescape")]
        owners.append(len(text))  # where what stands for nothing begins at the very end
        found, begin = [], 0
        for part in spelt:
            first = begin + (len(part) > 1 and part.startswith(b" "))
            begin += len(part)
            last = owners[begin - 1] + 1 if part else owners[begin]
            found.append((max(owners[first] - dropped, 0), max(last - dropped, 0)))
        return found

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id."""
        return [self.tokens[at] for at in ids]

    def _ids_of(self, word: str) -> tuple[int, ...]:
        """Return the ids of a space and the word behind it: longest match first."""
        end = min(len(word), self._longest)
        while word[:end] not in self._heads:  # the space alone is
            end -= 1
        found = [self._heads[word[:end]]]
        while end < len(word):
            start = end
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._tails.get(word[start:end])
                if piece is not None:
                    found.append(piece)
                    break
            else:  # at the end of the first character
                found += [self._byte_ids[byte] for byte in _utf8(word[start], word)]
        return tuple(found)


def _utf8(character: str, word: str) -> bytes:
    try:
        return character.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"{word!r:.60}: holds U+{ord(character):04X}, half of a surrogate pair and no "
            "character; mend the text, or what decoded it"
        ) from None


def _check(tokens: Sequence[str], ids: dict[str, int], source: str) -> None:
    if len(ids) < len(tokens):
        twice = next(token for at, token in enumerate(tokens) if ids[token] != at)
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
                f"{source}: {token!r:.80} is no piece of text: expected 1 to {MAX_PIECE} "
                f"characters, no space, and {SPACE} at most in front"
            )

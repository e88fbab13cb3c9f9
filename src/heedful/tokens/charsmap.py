"""The rules by which SentencePiece normalises texts, as its files hold them.

They are a trie of the bytes of what is replaced, as a double array (Aoe 1989) of 32-bit units, and
behind it all that takes its place, each ended by a zero byte.
"""

import hashlib
import struct

from heedful.errors import UserError


class Charsmap:
    """Looks up what takes the place of a text.

    Args:
        contents: the rules.
        source: where they are from, for messages.

    Raises:
        UserError: they are damaged. Some damage shows only in `image`.
    """

    def __init__(self, contents: bytes, *, source: str) -> None:
        self.contents = contents
        self._wrong = UserError(f"{source}: its rules for normalising are damaged")
        size = int.from_bytes(contents[:4], "little")
        if len(contents) < 8 or size % 4 or size < 4 or size > len(contents) - 4:
            raise self._wrong
        self._units: tuple[int, ...] = struct.unpack_from(f"<{size // 4}I", contents, 4)
        self._images = contents[4 + size :]

    def __repr__(self) -> str:
        # Tokenizers are told apart by this; an address would be another one in each process.
        return f"Charsmap(sha256={hashlib.sha256(self.contents).hexdigest()})"

    def image(self, text: str) -> str | None:
        """Return what takes the place of a text; None where no rule is for it.

        As in the reference, the rule for the shortest beginning of the text is the one for it.

        Raises:
            UserError: the rules are damaged.
        """
        units, at = self._units, 0
        try:
            at ^= _offset(units[0])
            for byte in text.encode("utf-8"):
                if not byte:
                    return None
                at ^= byte
                unit = units[at]
                if unit & 0x800000FF != byte:
                    return None
                at ^= _offset(unit)
                if unit >> 8 & 1:
                    return self._image(units[at] & 0x7FFFFFFF)
        except IndexError:
            raise self._wrong from None
        return None

    def _image(self, start: int) -> str:
        end = self._images.find(b"\0", start)
        if end < 0:
            raise self._wrong
        try:
            return self._images[start:end].decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong from None


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)

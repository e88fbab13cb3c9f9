"""SentencePiece's normalisation rules, in the format of its model files.

A file stores a trie of the bytes of the strings to replace, as a double array (Aoe 1989) of 32-bit
units. After the trie come all replacements, each terminated by a zero byte.
"""

import hashlib
import struct

from heedful.errors import UserError


class Charsmap:
    """Looks up the replacement of a string.

    Args:
        contents: the rules.
        source: where the rules come from, for messages.

    Raises:
        UserError: the rules are damaged. Only `image` detects some kinds of damage.
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
        # This identifies tokenizers, so it must not contain an address, which varies by process.
        return f"Charsmap(sha256={hashlib.sha256(self.contents).hexdigest()})"

    def image(self, text: str) -> str | None:
        """Return the replacement of a string; None if no rule matches.

        As in the reference, the rule for the shortest matching prefix of the string applies.

        Raises:
            UserError: the rules are damaged.
        """
        units, node = self._units, 0
        try:
            node ^= _offset(units[0])
            for byte in text.encode("utf-8"):
                if not byte:
                    return None
                node ^= byte
                unit = units[node]
                if unit & 0x800000FF != byte:
                    return None
                node ^= _offset(unit)
                if unit >> 8 & 1:
                    return self._image(units[node] & 0x7FFFFFFF)
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

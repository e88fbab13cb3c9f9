"""What takes the place of the characters of a long text, looked up for all of them at once."""

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.normalize import Images

_NEW, _LONG = 2**32 - 1, 2**32 - 2
"""Instead of a code point: what becomes of the character has not been asked for; or it is not one
character."""


class ImageTable:
    """Does what ``str.translate`` does, ten times as fast where a text is not ASCII.

    Args:
        images: what takes the place of each character.
    """

    def __init__(self, images: Images) -> None:
        self._images = images
        self._codes = np.full(sys.maxunicode + 1, _NEW, np.uint32)

    def translate(self, text: str) -> str:
        """Return a text with the images of its characters."""
        if text.isascii():
            return text.translate(self._images)
        codes = codes_of(text)
        images = self._codes.take(codes)
        if images.max(initial=0) == _NEW:
            for code in set(codes[images == _NEW].tolist()):
                image = self._images[code]
                self._codes[code] = ord(image) if len(image) == 1 else _LONG
            images = self._codes.take(codes)
        return "".join(self._parts(text, images))

    def _parts(self, text: str, images: NDArray[np.uint32]) -> Iterator[str]:
        """Yield the images, those of many characters that become one each in one piece."""
        for before, at in pairwise([-1, *np.flatnonzero(images == _LONG).tolist(), len(text)]):
            yield images[before + 1 : at].tobytes().decode("utf-32-le", "surrogatepass")
            if at < len(text):
                yield self._images[ord(text[at])]


def codes_of(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

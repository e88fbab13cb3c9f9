"""Vectorized replacement of the characters of a long text."""

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.normalize import ReplacementTable

_NEW, _LONG = 2**32 - 1, 2**32 - 2
"""Markers in place of a code point: the replacement is not known yet, or is not exactly one
character."""


class VectorizedReplacements:
    """Works like ``str.translate``, but ten times as fast on text that is not ASCII.

    Args:
        images: code point -> replacement.
    """

    def __init__(self, images: ReplacementTable) -> None:
        self._images = images
        self._codes = np.full(sys.maxunicode + 1, _NEW, np.uint32)

    def translate(self, text: str) -> str:
        """Return a text with all characters replaced by their images."""
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
        """Yield the replaced text in parts, with runs of single-character images as one part."""
        for before, at in pairwise([-1, *np.flatnonzero(images == _LONG).tolist(), len(text)]):
            yield images[before + 1 : at].tobytes().decode("utf-32-le", "surrogatepass")
            if at < len(text):
                yield self._images[ord(text[at])]


def codes_of(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

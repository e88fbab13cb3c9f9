"""Characters as bytes, so that arrays can tell words apart and look them up.

What a tokenizer does to a character depends on that character alone (`normalize.py`). So one array
has for each code point the byte of what takes its place: of a letter, or of a kind of character.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.characters import IDEOGRAPHS, MOVABLE, PUNCTUATION
from heedful.tokens.normalize import Normalizer

UNSEEN = 0
"""A character that no text had yet."""
LETTERS = 249
"""Letters have the bytes from 1: those of the vocabulary that are most frequent in it."""
FOREIGN = 250
"""A letter of no token: a word with one is unknown."""
SPACE = 251
MARK = 252
"""A character that is a word by itself."""
IDEOGRAPH = 253
"""The same, and nothing reaches across it."""
HARD = 254
"""A character whose chunk has to be worked out by itself."""

_CODES = 0x110000
_PLAIN_IDEOGRAPHS = (slice(0x3400, 0x4DC0), slice(0x4E00, 0xA000))
"""Those of `IDEOGRAPHS` that most texts have; nothing takes their place."""


class Symbols:
    """The byte of each character, worked out when a text first has it.

    Args:
        normalizer: what becomes of characters.
        ids: token -> id.
        unknown: number of a word of one character that is no token.
    """

    def __init__(self, normalizer: Normalizer, ids: Mapping[str, int], unknown: int) -> None:
        self._normalizer = normalizer
        self._ids = ids
        self._unknown = unknown
        # Memory that is not touched costs nothing: most pages never are.
        self._of = np.zeros(_CODES, np.uint8)
        self.single_numbers = np.zeros(_CODES, np.int32)
        """The number of each character that is a word by itself: the id of its token."""
        codes = np.frombuffer("".join(ids).encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.bincount(codes, minlength=1)
        if normalizer.split_ideographs:
            self._add_ideographs(np.flatnonzero(counts))
        letters = [
            chr(code)
            for code in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].tolist()
            if self._of[code] != IDEOGRAPH and code not in PUNCTUATION
        ]
        self.letters = {letter: at for at, letter in enumerate(letters[:LETTERS], start=1)}
        """Letter -> its byte."""
        self._more_letters = frozenset(letters[LETTERS:])
        self._see(np.arange(128))

    def _add_ideographs(self, codes: NDArray[np.int64]) -> None:
        for plain in _PLAIN_IDEOGRAPHS:
            self._of[plain] = IDEOGRAPH
            self.single_numbers[plain] = self._unknown
        for code in codes[self._of[codes] == IDEOGRAPH].tolist():
            self.single_numbers[code] = self._ids.get(chr(code), self._unknown)

    def read(self, text: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | NDArray[np.uint32]]:
        """Return the symbol and the code of each character of a text.

        The symbols may not be changed.
        """
        if text.isascii():
            ascii_text = text.encode("ascii")
            table = self._of[:256].tobytes()
            return (
                np.frombuffer(ascii_text.translate(table), np.uint8),
                np.frombuffer(ascii_text, np.uint8),
            )
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        symbols = self._of.take(codes)
        if not symbols.all():
            self._see(np.unique(codes[symbols == UNSEEN]))
            symbols = self._of.take(codes)
        return symbols, codes

    def _see(self, codes: NDArray[np.integer]) -> None:
        for code in codes.tolist():
            self._of[code] = self._symbol(code)

    def _symbol(self, code: int) -> int:
        normalizer = self._normalizer
        if normalizer.strip_accents and code in MOVABLE:
            return HARD
        image = normalizer.image(chr(code))
        if image == " ":
            return SPACE
        word = image.strip(" ")
        if len(word) != 1:
            return HARD
        if image != word:
            self.single_numbers[code] = self._ids.get(word, self._unknown)
            splits = normalizer.split_ideographs and code in IDEOGRAPHS
            return IDEOGRAPH if splits else MARK
        if word in self._more_letters:
            return HARD
        return self.letters.get(word, FOREIGN)

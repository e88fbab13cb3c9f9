"""Characters as bytes, so that arrays can tell words apart and look them up.

What a tokenizer does to a character depends on that character alone (`normalize.py`). So one array
has for each code point the byte of what takes its place: of a letter, or of a kind of character.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
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
        self._after_numbers = np.zeros(_CODES, np.int32)  # 0 where there is no number
        codes = np.frombuffer("".join(ids).encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.bincount(codes, minlength=1)
        if normalizer.split_ideographs:
            self._add_ideographs(np.flatnonzero(counts))
        seen = np.flatnonzero(counts)
        seen = seen[np.argsort(-counts[seen], kind="stable")]
        letters = [
            chr(code)
            for code in seen[self._of[seen] != IDEOGRAPH].tolist()
            if code not in PUNCTUATION
        ]
        self.letters = {letter: at for at, letter in enumerate(letters[:LETTERS], start=1)}
        """Letter -> its byte."""
        self._more_letters = frozenset(letters[LETTERS:])
        self._see(np.arange(128))

    def _add_ideographs(self, codes: NDArray[np.int64]) -> None:
        for plain in _PLAIN_IDEOGRAPHS:
            self._of[plain] = IDEOGRAPH
            self._after_numbers[plain] = self._unknown + 1
        codes = codes[self._of[codes] == IDEOGRAPH]
        characters = map(chr, codes.tolist())
        self._after_numbers[codes] = [self._ids.get(one, self._unknown) + 1 for one in characters]

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

    def single_numbers(self, codes: NDArray[np.uint8] | NDArray[np.uint32]) -> Indices:
        """Return for each character the id of its token if it is a word by itself, else -1.

        The codes are those of characters that were read.
        """
        numbers = self._after_numbers.take(codes).astype(np.int64)
        numbers -= 1
        return numbers

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
            self._after_numbers[code] = self._ids.get(word, self._unknown) + 1
            splits = normalizer.split_ideographs and code in IDEOGRAPHS
            return IDEOGRAPH if splits else MARK
        if word in self._more_letters:
            return HARD
        return self.letters.get(word, FOREIGN)

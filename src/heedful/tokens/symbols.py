"""Map characters to byte symbols, so that array operations can split words and look them up.

Normalization maps each character independently (`normalize.py`). So one array holds a symbol for
each code point: of its normalized letter, or of its kind of character.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
from heedful.tokens.characters import IDEOGRAPHS, MOVABLE, PUNCTUATION
from heedful.tokens.normalize import Normalizer

UNSEEN = 0
"""A character that has not occurred in any text yet."""
LETTERS = 249
"""The largest letter symbol. Letters have symbols from 1, given to the vocabulary's most frequent
letters."""
FOREIGN = 250
"""A letter that no token contains: a word with it is unknown."""
SPACE = 251
MARK = 252
"""A character that is a separate word, such as punctuation."""
IDEOGRAPH = 253
"""A character that is a separate word, and across which no normalization step reaches."""
HARD = 254
"""A character whose chunk must be encoded separately."""

_CODES = 0x110000
_PLAIN_IDEOGRAPHS = (slice(0x3400, 0x4DC0), slice(0x4E00, 0xA000))
"""The most common `IDEOGRAPHS`; normalization leaves them unchanged."""


class Symbols:
    """The symbol of each character, computed when it first occurs in a text.

    Args:
        normalizer: normalizes characters.
        ids: token -> id.
        unknown: lexicon number of a single-character word that is not a token.
    """

    def __init__(self, normalizer: Normalizer, ids: Mapping[str, int], unknown: int) -> None:
        self._normalizer = normalizer
        self._ids = ids
        self._unknown = unknown
        # Untouched memory costs nothing, and most pages are never touched.
        self._symbols = np.zeros(_CODES, np.uint8)
        self._after_numbers = np.zeros(_CODES, np.int32)  # number + 1; 0 if there is no number
        codes = np.frombuffer("".join(ids).encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.bincount(codes, minlength=1)
        if normalizer.split_ideographs:
            self._add_ideographs(np.flatnonzero(counts))
        seen = np.flatnonzero(counts)
        seen = seen[np.argsort(-counts[seen], kind="stable")]
        letters = [
            chr(code)
            for code in seen[self._symbols[seen] != IDEOGRAPH].tolist()
            if code not in PUNCTUATION
        ]
        self.letters = {letter: symbol for symbol, letter in enumerate(letters[:LETTERS], start=1)}
        """Letter -> its symbol."""
        self._more_letters = frozenset(letters[LETTERS:])
        self._add_symbols(np.arange(128))

    def _add_ideographs(self, codes: NDArray[np.int64]) -> None:
        for block in _PLAIN_IDEOGRAPHS:
            self._symbols[block] = IDEOGRAPH
            self._after_numbers[block] = self._unknown + 1
        codes = codes[self._symbols[codes] == IDEOGRAPH]
        characters = map(chr, codes.tolist())
        self._after_numbers[codes] = [
            self._ids.get(character, self._unknown) + 1 for character in characters
        ]

    def read(self, text: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | NDArray[np.uint32]]:
        """Return the symbol and the code point of each character of a text.

        The array of symbols may be read-only.
        """
        if text.isascii():
            ascii_text = text.encode("ascii")
            table = self._symbols[:256].tobytes()
            return (
                np.frombuffer(ascii_text.translate(table), np.uint8),
                np.frombuffer(ascii_text, np.uint8),
            )
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        symbols = self._symbols.take(codes)
        if not symbols.all():
            self._add_symbols(np.unique(codes[symbols == UNSEEN]))
            symbols = self._symbols.take(codes)
        return symbols, codes

    def single_numbers(self, codes: NDArray[np.uint8] | NDArray[np.uint32]) -> Indices:
        """Return the lexicon number of each character that is a separate word, else -1.

        The codes must come from `read`.
        """
        numbers = self._after_numbers.take(codes).astype(np.int64)
        numbers -= 1
        return numbers

    def _add_symbols(self, codes: NDArray[np.integer]) -> None:
        for code in codes.tolist():
            self._symbols[code] = self._symbol(code)

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

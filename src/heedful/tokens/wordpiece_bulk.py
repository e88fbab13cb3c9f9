"""Split texts into WordPiece's words with array operations on byte symbols (`symbols.py`)."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices
from heedful.tokens.bulk import BlockWords, cut_into_parts
from heedful.tokens.lexicon import Lexicon
from heedful.tokens.longest import longest_lexicon
from heedful.tokens.normalize import Normalizer
from heedful.tokens.symbols import HARD, IDEOGRAPH, SPACE, Symbols
from heedful.tokens.vocabulary import Vocabulary
from heedful.tokens.word_keys import MAX_KEY_BYTES

_SPACES = (" ", "\n")


class WordPieceSplitter:
    """Splits texts into words, punctuation marks and ideographs.

    A chunk with anything unusual is hard: a special token, a character that normalizes to none or
    several, or a word of more than 16 letters.

    Args:
        normalizer: normalizes characters. Its ``never_split`` must be empty.
        vocabulary: the tokens. Special tokens are matched whole, before any other step.
    """

    separator = " "

    def __init__(self, normalizer: Normalizer, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.base_tokens()
        self._symbols = Symbols(normalizer, vocabulary.base_ids(), unknown=len(self._tokens))
        self._special_tokens = [*vocabulary.special_ids()]
        self._special_starts = {token[0] for token in self._special_tokens}
        self._vocabulary = vocabulary

    def lexicon(self) -> Lexicon:
        """Build the lexicon of the words."""
        unknown_id = self._vocabulary.ids[self._vocabulary.special.unk_token]
        return longest_lexicon(self._tokens, self._symbols.letters, unknown_id)

    def are_whole(self, texts: Sequence[str]) -> bool:
        """See `WordSplitter`."""
        return True

    def parts(self, text: str, longest: int) -> list[slice]:
        """See `WordSplitter`."""
        return cut_into_parts(_last_space, text, longest)

    def words(self, texts: Sequence[str], block: str, text_starts: Indices) -> BlockWords:
        """See `WordSplitter`."""
        symbols, codes = self._symbols.read(block)
        starts, sizes = _words(symbols)
        hard, chunks = self._hard(block, symbols, starts, sizes), np.zeros((2, 0), np.int64)
        if hard.size:
            cuts = np.flatnonzero((symbols == SPACE) | (symbols == IDEOGRAPH))
            numbers = np.unique(np.searchsorted(cuts, hard))
            chunks = np.stack([cuts[numbers - 1] + 1, cuts[numbers]])
        return BlockWords(
            symbols=symbols,
            places=starts,
            sizes=sizes,
            starts=starts,
            numbers=self._symbols.single_numbers(codes.take(starts)),
            hard_starts=chunks[0],
            hard_ends=chunks[1],
        )

    def _hard(
        self, text: str, symbols: NDArray[np.uint8], starts: Indices, sizes: Indices
    ) -> Indices:
        """Return positions in the hard chunks of a text."""
        hard = symbols == HARD
        positions = [np.flatnonzero(hard)] if hard.any() else []
        if (sizes > MAX_KEY_BYTES).any():
            positions.append(starts[sizes > MAX_KEY_BYTES])
        # Searching for a first character is much faster than searching for a token.
        if any(character in text for character in self._special_starts):
            positions += [
                np.array([match.start() for match in re.finditer(re.escape(token), text)])
                for token in self._special_tokens
                if token in text
            ]
        return np.concatenate(positions) if positions else np.zeros(0, np.int64)


def _last_space(text: str, low: int, high: int) -> int:
    return max(text.rfind(space, low, high) for space in _SPACES)


def _words(symbols: NDArray[np.uint8]) -> tuple[Indices, Indices]:
    """Return the start and size of each word. The first and the last symbol are spaces."""
    is_letter, is_single = symbols < SPACE, symbols > SPACE
    starts = np.flatnonzero((is_letter[1:] > is_letter[:-1]) | is_single[1:]) + 1
    ends = np.flatnonzero((is_letter[:-1] > is_letter[1:]) | is_single[:-1]) + 1
    return starts, ends - starts

"""Split texts into WordPiece's words with array operations on byte symbols (`symbols.py`)."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.added import AddedTokens
from heedful.tokens.arrays import Indices
from heedful.tokens.bulk import BlockWords, cut_into_parts
from heedful.tokens.lexicon import Lexicon
from heedful.tokens.longest import longest_lexicon
from heedful.tokens.normalize import Normalizer, ReplacementTable
from heedful.tokens.symbols import HARD, IDEOGRAPH, SPACE, Symbols
from heedful.tokens.vocabulary import Vocabulary
from heedful.tokens.word_keys import MAX_KEY_BYTES

_SPACES = (" ", "\n")


class WordPieceSplitter:
    """Splits texts into words, punctuation marks and ideographs.

    A chunk with anything unusual is hard: an added token, a character that normalizes to none or
    several, or a word of more than 16 letters.

    Args:
        normalizer: normalizes characters. Its ``never_split`` must be empty.
        vocabulary: the tokens.
        added: finds the added tokens, which contain neither spaces nor ideographs.
    """

    separator = " "

    def __init__(self, normalizer: Normalizer, vocabulary: Vocabulary, added: AddedTokens) -> None:
        self._tokens = vocabulary.base_tokens()
        self._symbols = Symbols(normalizer, vocabulary.base_ids(), unknown=len(self._tokens))
        self._added = added
        self._letters = ReplacementTable(partial(_letter, normalizer))
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
        if added := self._added.starts(text):
            positions.append(np.array(added))
        if self._added.late and (added := self._added.late_starts(text.translate(self._letters))):
            positions.append(np.array(added))
        return np.concatenate(positions) if positions else np.zeros(0, np.int64)


def _letter(normalizer: Normalizer, character: str) -> str:
    """Return the replacement of a character; NUL if it is not one, so that its chunk is hard."""
    letter = normalizer.letter(character)
    return letter if len(letter) == 1 else "\0"


def _last_space(text: str, low: int, high: int) -> int:
    return max(text.rfind(space, low, high) for space in _SPACES)


def _words(symbols: NDArray[np.uint8]) -> tuple[Indices, Indices]:
    """Return the start and size of each word. The first and the last symbol are spaces."""
    is_letter, is_single = symbols < SPACE, symbols > SPACE
    starts = np.flatnonzero((is_letter[1:] > is_letter[:-1]) | is_single[1:]) + 1
    ends = np.flatnonzero((is_letter[:-1] > is_letter[1:]) | is_single[:-1]) + 1
    return starts, ends - starts

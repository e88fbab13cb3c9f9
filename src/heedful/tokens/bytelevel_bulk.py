"""Split byte-level texts into words with array operations on character classes.

The rules equal the pattern in `bytelevel.py`.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.added import AddedTokens, without_white_space
from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.bpe import BytePairs
from heedful.tokens.bulk import BlockWords, cut_into_parts
from heedful.tokens.characters import LETTERS, NUMBERS, WHITE_SPACE
from heedful.tokens.lexicon import Entries, Lexicon
from heedful.tokens.merges import VectorizedMerges
from heedful.tokens.word_keys import MAX_KEY_BYTES, Keys

_LETTER, _NUMBER, _OTHER, _BLANK, _SPACE, _BORDER = range(6)
"""Character classes. Classes below `_BLANK` form words; a border is outside any text."""
_APOSTROPHE = ord("'")
Codes = NDArray[np.uint8] | NDArray[np.uint32]


class ByteLevelSplitter:
    """Splits texts into words like the pattern.

    Three kinds of words are hard: words of more than 16 bytes; words with a NUL, which pads keys;
    and words with a lone surrogate, which has no bytes.

    Args:
        added: the tokens that are matched whole.
        prefix: whether to insert a space before a text that does not begin with one.
    """

    separator = "\n "

    def __init__(self, added: AddedTokens, *, prefix: bool) -> None:
        self._added = added
        self._numbers = {token: number for number, token in enumerate(added.ids)}
        self._prefix = prefix

    def are_whole(self, texts: Sequence[str]) -> bool:
        """See `WordSplitter`."""
        return not any(map(self._added.may_contain, texts))

    def parts(self, text: str, longest: int) -> list[slice]:
        """See `WordSplitter`."""
        parts: list[slice] = []
        for part in self._added.split(text):
            if part.token is None:
                sub_parts = cut_into_parts(_last_cut, text[part.start : part.stop], longest)
                parts += [slice(part.start + one.start, part.start + one.stop) for one in sub_parts]
            else:
                start, stop, _ = without_white_space(text, part)
                parts.append(slice(start, stop))
        return parts

    def words(self, texts: Sequence[str], block: str, text_starts: Indices) -> BlockWords:
        """See `WordSplitter`."""
        codes, classes = _classes(block)
        special = self._set_borders(texts, codes, classes, text_starts)
        is_start = _starts(codes, classes)
        for index in special:
            is_start[text_starts[index] : text_starts[index] + len(texts[index])] = False
        is_start[text_starts[special]] = True
        is_border = classes == _BORDER
        boundaries = np.flatnonzero(is_start | is_border)
        is_word = ~is_border[boundaries[:-1]]
        starts, ends = boundaries[:-1][is_word], boundaries[1:][is_word]
        numbers = np.full(len(starts), -1)
        numbers[np.searchsorted(starts, text_starts[special])] = [
            self._numbers[texts[index]] for index in special
        ]
        symbols, places, sizes = _spelt(block, codes, starts, ends)
        hard = (sizes > MAX_KEY_BYTES) & (numbers < 0)
        unusual = np.flatnonzero((codes == 0) | ((codes >= 0xD800) & (codes < 0xE000)))
        if unusual.size:
            hard[np.searchsorted(starts, unusual, side="right") - 1] = True
            hard &= numbers < 0
        numbers[hard] = 0  # prevents a look-up, since their keys would equal those of other words
        return BlockWords(
            symbols=symbols,
            places=places,
            sizes=sizes,
            starts=starts,
            numbers=numbers,
            hard_starts=starts[hard],
            hard_ends=ends[hard],
        )

    def _set_borders(
        self, texts: Sequence[str], codes: Codes, classes: NDArray[np.uint8], text_starts: Indices
    ) -> list[int]:
        """Set the classes of characters outside texts; return the indices of special tokens."""
        special = [index for index, text in enumerate(texts) if text in self._numbers]
        classes[text_starts - 2] = classes[text_starts - 1] = _BORDER
        classes[text_starts[-1] :] = _BORDER
        if self._prefix:
            is_spaced = codes[text_starts[:-1]] == ord(" ")
            is_empty = np.diff(text_starts) == len(self.separator)
            is_spaced[special] = True
            classes[text_starts[:-1][~is_spaced & ~is_empty] - 1] = _SPACE
        return special


def byte_lexicon(added: AddedTokens, pairs: BytePairs, *, trim: bool) -> Lexicon:
    """Build the lexicon of byte-level words. The known words are the added tokens.

    Args:
        added: the tokens that are matched whole.
        pairs: the merges that split other words.
        trim: whether offsets exclude spaces at both ends of a piece.
    """
    count = len(added.ids)
    known = Entries(
        firsts=np.arange(count),
        counts=np.ones(count, np.int64),
        ids=np.array([*added.ids.values()], np.int64),
        begins=np.zeros(count, np.int64),
        ends=np.array([*map(len, added.ids)], np.int64),
    )
    none = np.zeros(0, np.uint64)
    merges = VectorizedMerges(pairs, trim=trim)
    return Lexicon(known, Keys(none, none), np.zeros(0, np.int64), merges.cut)


def _last_cut(text: str, low: int, high: int) -> int:
    """Return the last position between two bounds with a space that precedes a non-space."""
    position = text.rfind(" ", low, high)
    while position >= 0 and (
        text[position + 1 : position + 2].isspace() or position + 1 == len(text)
    ):
        position = text.rfind(" ", low, position)
    return position


@cache
def _all_classes() -> NDArray[np.uint8]:
    """Return the class of every code point."""
    classes = np.full(0x110000, _OTHER, np.uint8)
    for ranges, kind in ((LETTERS, _LETTER), (NUMBERS, _NUMBER), (WHITE_SPACE, _BLANK)):
        for first, last in ranges.pairs():
            classes[first : last + 1] = kind
    classes[ord(" ")] = _SPACE
    return classes


def _classes(block: str) -> tuple[Codes, NDArray[np.uint8]]:
    """Return the code point and the class of each character. The array of classes is writable."""
    if block.isascii():
        codes = block.encode("ascii")
        classes = bytearray(codes.translate(_all_classes()[:256].tobytes()))
        return np.frombuffer(codes, np.uint8), np.frombuffer(classes, np.uint8)
    wide = np.frombuffer(block.encode("utf-32-le", "surrogatepass"), np.uint32)
    return wide, _all_classes().take(wide)


def _starts(codes: Codes, classes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return, for each character, whether a word starts at it."""
    in_word = classes < _BLANK
    is_blank = ~in_word & (classes < _BORDER)
    is_start = np.zeros(len(classes), bool)
    # A run of letters, numbers or others, with the space before it.
    is_start[1:] = in_word[1:] & (classes[1:] != classes[:-1]) & (classes[:-1] != _SPACE)
    # A run of white space, except its last character, which starts a word if a run of another
    # class follows.
    is_start[1:] |= is_blank[1:] & ~is_blank[:-1]
    is_start[:-1] |= is_blank[:-1] & in_word[1:]
    # Contractions, if the apostrophe begins a word.
    quotes = np.flatnonzero(is_start & (codes == _APOSTROPHE))
    if quotes.size:
        first, second = codes[quotes + 1], codes[quotes + 2]
        short = np.isin(first, _codes("stmd"))
        long = np.zeros(len(quotes), bool)
        for one, two in ("re", "ve", "ll"):
            long |= (first == ord(one)) & (second == ord(two))
        is_start[quotes[short | long] + 1] = False
        after_contraction = np.concatenate([quotes[short] + 2, quotes[long] + 3])
        is_start[after_contraction[classes[after_contraction] == _LETTER]] = True
    return is_start


def _codes(text: str) -> Indices:
    return np.array([*map(ord, text)])


def _spelt(
    block: str, codes: Codes, starts: Indices, ends: Indices
) -> tuple[NDArray[np.uint8], Indices, Indices]:
    """Return the bytes of a block, and the start and size of each word in bytes."""
    if codes.dtype == np.uint8:
        return codes.astype(np.uint8, copy=False), starts, ends - starts
    widths = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    widths[(codes >= 0xD800) & (codes < 0xE000)] = 0
    byte_bounds = bounds_of(widths)
    symbols = np.frombuffer(block.encode("utf-8", "ignore"), np.uint8)
    places = byte_bounds[starts]
    return symbols, places, byte_bounds[ends] - places

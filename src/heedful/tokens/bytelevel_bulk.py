"""The words of byte-level texts, told apart by array operations on the classes of characters.

The rules are those of the pattern in `bytelevel.py`.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.added import AddedTokens, bare
from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.bpe import BytePairs
from heedful.tokens.bulk import BlockWords, parts_at
from heedful.tokens.characters import LETTERS, NUMBERS, WHITE_SPACE
from heedful.tokens.keys import MAX_LETTERS, Keys
from heedful.tokens.lexicon import Entries, Lexicon
from heedful.tokens.merges import ManyMerges

_LETTER, _NUMBER, _OTHER, _BLANK, _SPACE, _BORDER = range(6)
"""Classes of characters: those below `_BLANK` make words; a border is not in a text."""
_APOSTROPHE = ord("'")
Codes = NDArray[np.uint8] | NDArray[np.uint32]


class ByteLevelSplitter:
    """Tells words as the pattern does, each a few bytes.

    Words of more than 16 bytes are hard, and so are those with a NUL, which fills up keys, or with
    a lone surrogate, which is no byte.

    Args:
        added: the tokens that are matched whole.
        prefix: whether a text begins with a space even where it does not.
    """

    separator = "\n "

    def __init__(self, added: AddedTokens, *, prefix: bool) -> None:
        self._added = added
        self._numbers = {token: number for number, token in enumerate(added.ids)}
        self._prefix = prefix

    def are_whole(self, texts: Sequence[str]) -> bool:
        """See `WordSplitter`."""
        return not any(map(self._added.are_in, texts))

    def parts(self, text: str, longest: int) -> list[slice]:
        """See `WordSplitter`."""
        parts: list[slice] = []
        for part in self._added.split(text):
            if part.token is None:
                between = parts_at(_last_cut, text[part.start : part.stop], longest)
                parts += [slice(part.start + one.start, part.start + one.stop) for one in between]
            else:
                start, stop, _ = bare(text, part)
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
        marks = np.flatnonzero(is_start | is_border)
        is_word = ~is_border[marks[:-1]]
        starts, ends = marks[:-1][is_word], marks[1:][is_word]
        numbers = np.full(len(starts), -1)
        numbers[np.searchsorted(starts, text_starts[special])] = [
            self._numbers[texts[index]] for index in special
        ]
        symbols, places, sizes = _spelt(block, codes, starts, ends)
        hard = (sizes > MAX_LETTERS) & (numbers < 0)
        rare = np.flatnonzero((codes == 0) | ((codes >= 0xD800) & (codes < 0xE000)))
        if rare.size:
            hard[np.searchsorted(starts, rare, side="right") - 1] = True
            hard &= numbers < 0
        numbers[hard] = 0  # so that they are not looked up: theirs would be the keys of others
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
        """Set the classes of what is not in a text; return which texts are special tokens."""
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
    """Make the lexicon of words of bytes; those that are known are the added tokens.

    Args:
        added: the tokens that are matched whole.
        pairs: what other words are cut by.
        trim: whether spaces at the ends of a piece are left out of its slice.
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
    merges = ManyMerges(pairs, trim=trim)
    return Lexicon(known, Keys(none, none), np.zeros(0, np.int64), merges.cut)


def _last_cut(text: str, low: int, high: int) -> int:
    """Return the last place between two where a space stands before something else than spaces."""
    at = text.rfind(" ", low, high)
    while at >= 0 and (text[at + 1 : at + 2].isspace() or at + 1 == len(text)):
        at = text.rfind(" ", low, at)
    return at


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
    """Return the code and the class of each character. The classes may be changed."""
    if block.isascii():
        codes = block.encode("ascii")
        classes = bytearray(codes.translate(_all_classes()[:256].tobytes()))
        return np.frombuffer(codes, np.uint8), np.frombuffer(classes, np.uint8)
    wide = np.frombuffer(block.encode("utf-32-le", "surrogatepass"), np.uint32)
    return wide, _all_classes().take(wide)


def _starts(codes: Codes, classes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell for each character whether a word starts with it."""
    is_solid = classes < _BLANK
    is_blank = ~is_solid & (classes < _BORDER)
    is_start = np.zeros(len(classes), bool)
    # A run of letters, numbers or others; the space before it belongs to it.
    is_start[1:] = is_solid[1:] & (classes[1:] != classes[:-1]) & (classes[:-1] != _SPACE)
    # White space: all of a run, but the last before a run of something else by itself.
    is_start[1:] |= is_blank[1:] & ~is_blank[:-1]
    is_start[:-1] |= is_blank[:-1] & is_solid[1:]
    # Contractions, where an apostrophe begins a word.
    quotes = np.flatnonzero(is_start & (codes == _APOSTROPHE))
    if quotes.size:
        first, second = codes[quotes + 1], codes[quotes + 2]
        short = np.isin(first, _codes("stmd"))
        long = np.zeros(len(quotes), bool)
        for one, two in ("re", "ve", "ll"):
            long |= (first == ord(one)) & (second == ord(two))
        is_start[quotes[short | long] + 1] = False
        rest = np.concatenate([quotes[short] + 2, quotes[long] + 3])
        is_start[rest[classes[rest] == _LETTER]] = True
    return is_start


def _codes(text: str) -> Indices:
    return np.array([*map(ord, text)])


def _spelt(
    block: str, codes: Codes, starts: Indices, ends: Indices
) -> tuple[NDArray[np.uint8], Indices, Indices]:
    """Return the bytes of a block, and where each word starts among them, and its size."""
    if codes.dtype == np.uint8:
        return codes.astype(np.uint8, copy=False), starts, ends - starts
    widths = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    widths[(codes >= 0xD800) & (codes < 0xE000)] = 0
    byte_bounds = bounds_of(widths)
    symbols = np.frombuffer(block.encode("utf-8", "ignore"), np.uint8)
    places = byte_bounds[starts]
    return symbols, places, byte_bounds[ends] - places

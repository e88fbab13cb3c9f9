"""Several texts as one array of characters, to find their words with array operations.

Shapes: R texts, C characters of all texts and the separators between them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.characters import IDEOGRAPHS, PUNCTUATION
from heedful.tokens.replacements import codes_of

SPACE, IDEOGRAPH, MARK, JOINER = 1, 2, 4, 8
"""Classes of characters, as bits: white space, ideographs, punctuation marks, and the marks that
may be inside a word."""
WORD_ENDS = SPACE | IDEOGRAPH | MARK | JOINER
"""Characters beside which a tokenizer of words splits a text."""

_JOINERS = "-#$%&+.@_"
"""Marks inside words such as @ann_b, #tag, US$, 5%, C++, AT&T and U.S.-led."""
_REPEATED = ".-"
"""Joiners that are no part of a word if they occur several times in a row."""
_URL = re.compile(r"https?://[!-~]*[0-9A-Za-z/]")
_SEPARATOR = "\n"
_MAX_TEXTS = 1024
_MAX_CHARACTERS = 2**18
"""Limits of a block: enough to make the overhead negligible, and few enough for memory."""


Item = TypeVar("Item")


def in_blocks(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Divide items into blocks of limited size.

    Args:
        items: any items.
        size_of: returns the number of characters of an item.
    """
    block: list[Item] = []
    size = 0
    for item in items:
        block.append(item)
        size += size_of(item)
        if len(block) >= _MAX_TEXTS or size >= _MAX_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


class TextBlock:
    """Several texts, each between two line breaks.

    Args:
        texts: the R texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.text = _SEPARATOR.join(("", *texts, ""))
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        self.starts = 1 + np.cumsum(sizes + 1) - (sizes + 1)  # (R,)
        """Start of each text."""
        self.ends = self.starts + sizes  # (R,)
        """End of each text."""

    @cached_property
    def codes(self) -> NDArray[np.uint32]:
        """The code points. Shape (C,)."""
        return codes_of(self.text)

    @cached_property
    def classes(self) -> NDArray[np.uint8]:
        """The classes of each character. Shape (C,)."""
        return _classes().take(self.codes)

    def count_before(self, classes: int) -> NDArray[np.int64]:
        """Return the number of characters of some classes before each position. Shape (C + 1,)."""
        counts = np.zeros(len(self.codes) + 1, np.int64)
        np.cumsum((self.classes & classes) > 0, out=counts[1:])
        return counts

    def next_characters(self) -> NDArray[np.int64]:
        """Return the first position from each on that is not white space. Shape (C,).

        It is the number of characters if there is none.
        """
        positions = np.arange(len(self.codes))
        positions[(self.classes & SPACE) > 0] = len(self.codes)
        return np.minimum.accumulate(positions[::-1])[::-1]

    def breaks(self) -> NDArray[np.bool_]:
        """Return where words end or begin by the rule ``spaces``.

        Words end at white space, at ideographs and at punctuation marks, of which several alike are
        one word. Marks such as ``@`` and the full stop of ``U.S`` are part of a word, but not its
        last full stop. A URL is one word.

        Shape:
            (C,). The value at a position is whether there is a break before its character.
        """
        codes, classes = self.codes, self.classes
        repeated = np.zeros(len(codes), np.bool_)
        repeated[1:] = codes[1:] == codes[:-1]
        runs = repeated.copy()  # joiners with a neighbour alike
        runs[:-1] |= repeated[1:]
        runs &= np.isin(codes, [ord(mark) for mark in _REPEATED])
        apart = (classes & (SPACE | IDEOGRAPH | MARK)) > 0
        apart |= runs
        # Runs of white space and of equal marks are not divided, but ideographs are.
        space = (classes & SPACE) > 0
        inside = repeated & ((classes & (MARK | JOINER)) > 0)
        inside[1:] |= space[1:] & space[:-1]
        for url in _URL.finditer(self.text):
            start, end = url.span()
            apart[start:end] = True
            inside[start], inside[start + 1 : end] = False, True
        breaks = apart.copy()
        breaks[1:] |= apart[:-1]
        breaks &= ~inside
        # The last full stop of a word is apart from it.
        stops = (codes[:-1] == ord(".")) & ~apart[:-1] & apart[1:]
        breaks[:-1] |= stops
        return breaks


@cache
def _classes() -> NDArray[np.uint8]:
    """Return the classes of all code points."""
    table = np.zeros(0x110000, np.uint8)
    for ranges, bit in ((IDEOGRAPHS, IDEOGRAPH), (PUNCTUATION, MARK)):
        for first, last in ranges.pairs():
            table[first : last + 1] |= bit
    for code in range(0x3001):  # the last white space is U+3000
        if chr(code).isspace():
            table[code] |= SPACE
    for mark in _JOINERS:
        table[ord(mark)] = JOINER | (table[ord(mark)] & ~np.uint8(MARK))
    return table

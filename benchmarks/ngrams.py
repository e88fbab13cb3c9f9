"""A baseline for next words: n-grams with interpolated Kneser-Ney smoothing, three discounts.

Chen & Goodman 1999, "An empirical study of smoothing techniques for language modeling", section 3:
"modified Kneser-Ney", with the discounts of its equation 26.

Shapes: T tokens of a text, G different n-grams, H different histories, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Order:
    """The n-grams of one length."""

    codes: Ids
    """Each n-gram as one number, the newest token in the lowest bits; sorted. Shape (G,)."""
    counts: Ids
    """How often it occurs, or for all but the longest how many tokens stand before it. (G,)."""
    histories: Ids
    """Its tokens but the newest, each once; sorted. Shape (H,)."""
    totals: Numbers
    """The sum of the counts of what follows each history. Shape (H,)."""
    saved: Numbers
    """What discounts take from them. Shape (H,)."""
    discounts: Numbers
    """Of n-grams with a count of 0, 1, 2, and 3 or more. Shape (4,)."""

    @classmethod
    def of(cls, codes: Ids, counts: Ids, bits: int) -> "_Order":
        """Count what follows each history."""
        ones, twos, threes, fours = (max(int((counts == n).sum()), 1) for n in (1, 2, 3, 4))
        share = ones / (ones + 2 * twos)
        raw = [1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos]
        raw.append(3 - 4 * share * fours / threes)
        discounts = np.array([0.0, *np.clip(raw, 0.0, [1, 2, 3])])
        histories, starts = np.unique(codes >> bits, return_index=True)
        taken = discounts[np.minimum(counts, 3)]
        return cls(
            codes=codes,
            counts=counts,
            histories=histories,
            totals=np.add.reduceat(counts, starts).astype(np.float64),
            saved=np.add.reduceat(taken, starts),
            discounts=discounts,
        )

    def refine(self, codes: Ids, histories: Ids, lower: Numbers) -> Numbers:
        """Return the probabilities of tokens, given those by shorter histories.

        Args:
            codes: the n-gram that ends with each token. Shape (T,).
            histories: its history. Shape (T,).
            lower: shape (T,).
        """
        at = np.minimum(self.codes.searchsorted(codes), len(self.codes) - 1)
        counts = np.where(self.codes[at] == codes, self.counts[at], 0)
        left = counts - self.discounts[np.minimum(counts, 3)]
        row = np.minimum(self.histories.searchsorted(histories), len(self.histories) - 1)
        known = self.histories[row] == histories
        higher = (left + self.saved[row] * lower) / self.totals[row]
        return np.where(known, higher, lower)


class KneserNey:
    """A model of the next token.

    Args:
        texts: each as token ids.
        order: n; all of an n-gram's tokens must fit into 63 bits.
        vocab_size: V.
    """

    def __init__(self, texts: Sequence[Sequence[int]], *, order: int, vocab_size: int) -> None:
        self.order, self.begin = order, vocab_size
        self.bits = int(vocab_size).bit_length()
        assert self.bits * order < 64, "an n-gram does not fit into 63 bits"
        self.uniform = 1 / vocab_size
        codes = np.concatenate([self._codes(text, order) for text in texts])
        grams, counts = np.unique(codes, return_counts=True)
        orders = [_Order.of(grams, counts, self.bits)]
        for length in range(order - 1, 0, -1):
            # Of shorter ones it counts how many different tokens stand before them.
            grams, counts = np.unique(grams & ((1 << self.bits * length) - 1), return_counts=True)
            orders.append(_Order.of(grams, counts, self.bits))
        self.orders = orders[::-1]

    def _codes(self, text: Sequence[int], order: int) -> Ids:
        """Return the n-gram that ends with each token of a text. Shape (T,)."""
        padded = np.array([self.begin] * (order - 1) + list(text), dtype=np.int64)
        codes = np.zeros(len(text), dtype=np.int64)
        for at in range(order):
            codes = (codes << self.bits) | padded[at : at + len(text)]
        return codes

    def probabilities(self, text: Sequence[int]) -> Numbers:
        """Return the probability of each token of a text, given those before it. Shape (T,)."""
        chances = np.full(len(text), self.uniform)
        for length, order in enumerate(self.orders, start=1):
            codes = self._codes(text, length)
            chances = order.refine(codes, codes >> self.bits, chances)
        return chances

    def next(self, text: Sequence[int]) -> Numbers:
        """Return the probability of each token after a text. Shape (V,)."""
        every = np.arange(self.begin)
        chances = np.full(self.begin, self.uniform)
        for length, order in enumerate(self.orders, start=1):
            padded = [self.begin] * length + list(text)
            history = 0
            for token in padded[len(padded) - length + 1 :]:
                history = (history << self.bits) | token
            codes = (history << self.bits) | every
            chances = order.refine(codes, codes >> self.bits, chances)
        return chances

"""A baseline for next-word prediction: n-grams with interpolated, modified Kneser-Ney smoothing.

Chen & Goodman 1999, "An empirical study of smoothing techniques for language modeling", section 3:
"modified Kneser-Ney", with the three discounts of its equation 26.

Shapes: T tokens of a text, G distinct n-grams, H distinct histories, V vocabulary.
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
    """Each n-gram as one number, the last token in the lowest bits; sorted. Shape (G,)."""
    counts: Ids
    """Number of occurrences of each n-gram; for all orders but the highest, the number of distinct
    tokens before it. Shape (G,)."""
    histories: Ids
    """The distinct n-grams without their last token; sorted. Shape (H,)."""
    totals: Numbers
    """Sum of the counts of all n-grams with each history. Shape (H,)."""
    saved: Numbers
    """Sum of the discounts of all n-grams with each history. Shape (H,)."""
    discounts: Numbers
    """Discounts of n-grams with a count of 0, 1, 2, and 3 or more. Shape (4,)."""

    @classmethod
    def of(cls, codes: Ids, counts: Ids, bits: int) -> "_Order":
        """Sum up the counts and discounts of each history."""
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
        """Return the probabilities of tokens, interpolated with those of the next lower order.

        Args:
            codes: The n-gram that ends with each token. Shape (T,).
            histories: The history of each n-gram. Shape (T,).
            lower: The probabilities of the next lower order. Shape (T,).
        """
        at = np.minimum(self.codes.searchsorted(codes), len(self.codes) - 1)
        counts = np.where(self.codes[at] == codes, self.counts[at], 0)
        left = counts - self.discounts[np.minimum(counts, 3)]
        row = np.minimum(self.histories.searchsorted(histories), len(self.histories) - 1)
        known = self.histories[row] == histories
        higher = (left + self.saved[row] * lower) / self.totals[row]
        return np.where(known, higher, lower)


class KneserNey:
    """An n-gram language model.

    Args:
        texts: The training texts, as token ids.
        order: The length n of the n-grams; an n-gram must fit into 63 bits.
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
            # For lower orders, count the distinct tokens before each n-gram.
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
        """Return the probability of each token, given the tokens before it. Shape (T,)."""
        probabilities = np.full(len(text), self.uniform)
        for length, order in enumerate(self.orders, start=1):
            codes = self._codes(text, length)
            probabilities = order.refine(codes, codes >> self.bits, probabilities)
        return probabilities

    def next(self, text: Sequence[int]) -> Numbers:
        """Return the probability of each token as the next one after a text. Shape (V,)."""
        every = np.arange(self.begin)
        probabilities = np.full(self.begin, self.uniform)
        for length, order in enumerate(self.orders, start=1):
            padded = [self.begin] * length + list(text)
            history = 0
            for token in padded[len(padded) - length + 1 :]:
                history = (history << self.bits) | token
            codes = (history << self.bits) | every
            probabilities = order.refine(codes, codes >> self.bits, probabilities)
        return probabilities

"""Words -> pieces, many at once: greedy longest match on keys (`keys.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.keys import MAX_LETTERS, Keys, KeyTable, distinct, keys_at

PREFIX = "##"
MAX_REMEMBERED = 2**17
"""Words that are remembered besides those that are tokens, before they are forgotten."""
_REACH = 64
"""How far from its slot a remembered word may be."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entries:
    """The pieces of W numbered words, N in all, offsets counted from the start of the word."""

    firsts: Indices
    """(W,) Where the pieces of each word start."""
    counts: Indices
    """(W,) How many it has."""
    ids: Indices
    """(N,)"""
    begins: Indices
    """(N,)"""
    ends: Indices
    """(N,)"""

    def __len__(self) -> int:
        return len(self.firsts)

    def extended(self, counts: Indices, ids: Indices, begins: Indices, ends: Indices) -> "Entries":
        """Return these words and more, whose numbers follow."""
        firsts = bounds_of(counts)[:-1] + len(self.ids)
        return Entries(
            firsts=np.concatenate([self.firsts, firsts]),
            counts=np.concatenate([self.counts, counts]),
            ids=np.concatenate([self.ids, ids]),
            begins=np.concatenate([self.begins, begins]),
            ends=np.concatenate([self.ends, ends]),
        )


class Lexicon:
    """Numbers words: each token by its id, then those that were met.

    Args:
        tokens: the tokens, in the order of their ids.
        letters: letter -> its byte. A token with any other character is none that a word is cut to.
        unknown_id: the one id of a word that cannot be put together from tokens.
    """

    def __init__(self, tokens: Sequence[str], letters: Mapping[str, int], unknown_id: int) -> None:
        self._unknown_id = unknown_id
        self._num_tokens = len(tokens)
        self.unknown_letter = len(tokens)
        """The number of a word of one letter that is unknown."""
        lengths = np.array([len(token) for token in tokens])
        self._own = Entries(
            firsts=np.arange(len(tokens) + 1),
            counts=np.ones(len(tokens) + 1, np.int64),
            ids=np.append(np.arange(len(tokens)), unknown_id),
            begins=np.zeros(len(tokens) + 1, np.int64),
            ends=np.append(lengths, 1),
        )
        symbols = _symbols("".join(tokens), letters)
        # Where each token starts; those of the inside of words start behind their prefix.
        starts = bounds_of(lengths)[:-1]
        inside = np.array([token.startswith(PREFIX) for token in tokens])
        token_ids = np.arange(len(tokens))
        self._head_keys = _spelled(symbols, starts, lengths, token_ids[~inside])
        self._tails = KeyTable(len(tokens))
        self._tails.add(
            *_spelled(symbols, starts + len(PREFIX), lengths - len(PREFIX), token_ids[inside])
        )
        self.forget()

    def forget(self) -> None:
        """Forget all words but the tokens."""
        self.entries = self._own
        self._heads = KeyTable(len(self._own) + MAX_REMEMBERED)
        self._heads.add(*self._head_keys)

    def make_room(self, count: int) -> None:
        """See to it that so many words can be remembered; at most `MAX_REMEMBERED`."""
        if len(self.entries) + count > len(self._own) + MAX_REMEMBERED:
            self.forget()

    def numbers(self, symbols: NDArray[np.uint8], starts: Indices, sizes: Indices) -> Indices:
        """Return the number of each word of a text, under which `entries` has its pieces.

        Args:
            symbols: the letters of the text; see `keys_at`.
            starts: where each word starts. Shape (W,).
            sizes: its number of letters, 1 to 16. Shape (W,).
        """
        keys = keys_at(symbols, starts, sizes)
        numbers = self._heads.find(keys)
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            one_of_each, kinds = distinct(keys.at(missing))
            new = missing[one_of_each]
            new_numbers = np.arange(len(self.entries), len(self.entries) + len(new))
            self.entries = self.entries.extended(*self._cut(keys.at(new), sizes[new]))
            self._heads.add(keys.at(new), new_numbers, reach=_REACH)
            numbers[missing] = new_numbers[kinds]
        return numbers

    def _cut(self, keys: Keys, sizes: Indices) -> tuple[Indices, Indices, Indices, Indices]:
        """Cut words; return the number of pieces of each, and ids, begins and ends of pieces."""
        words, begins = np.arange(len(sizes)), np.zeros(len(sizes), np.int64)
        known = np.ones(len(sizes), bool)
        cuts: list[tuple[Indices, Indices, Indices, Indices]] = []
        table, rest = self._heads, keys
        while words.size:
            ids, lengths = self._longest(table, rest, sizes[words] - begins)
            known[words[ids < 0]] = False
            ends = begins + lengths
            cuts.append((words, ids, begins, ends))
            on = np.flatnonzero((ids >= 0) & (ends < sizes[words]))
            rest = rest.at(on).after(lengths[on])
            words, begins, table = words[on], ends[on], self._tails
        unknown = np.flatnonzero(~known)
        cuts.append((unknown, np.full(len(unknown), self._unknown_id), 0 * unknown, sizes[unknown]))
        owners, ids, begins, ends = (np.concatenate(column) for column in zip(*cuts, strict=True))
        kept = known[owners]
        kept[len(owners) - len(unknown) :] = True
        order = np.flatnonzero(kept)[np.argsort(owners[kept], kind="stable")]
        counts = np.bincount(owners[order], minlength=len(sizes))
        return counts, ids[order], begins[order], ends[order]

    def _longest(self, table: KeyTable, keys: Keys, sizes: Indices) -> tuple[Indices, Indices]:
        """Return the id of the longest token that each word begins with, -1 for none; its size."""
        # All beginnings are looked up at once, since most of a short operation is its call.
        lengths = np.arange(1, sizes.max() + 1)
        numbers = table.find(keys.beginnings(lengths)).reshape(len(sizes), -1)
        is_token = (numbers >= 0) & (numbers < self._num_tokens) & (lengths <= sizes[:, None])
        longest = len(lengths) - is_token[:, ::-1].argmax(axis=1)
        words = np.arange(len(sizes))
        return np.where(is_token.any(axis=1), numbers[words, longest - 1], -1), longest


def _symbols(text: str, letters: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return the byte of each letter, 0 for other characters, and some zeros behind them."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    table = np.zeros(int(codes.max(initial=0)) + 1, np.uint8)
    known = {ord(letter): symbol for letter, symbol in letters.items() if ord(letter) < len(table)}
    table[list(known)] = list(known.values())
    return np.concatenate([table.take(codes), np.zeros(MAX_LETTERS + 8, np.uint8)])


def _spelled(
    symbols: NDArray[np.uint8], starts: Indices, sizes: Indices, token_ids: Indices
) -> tuple[Keys, Indices]:
    """Return the keys and ids of those tokens that are all letters, and not too many."""
    others = bounds_of(symbols == 0)
    starts, sizes = starts[token_ids], sizes[token_ids]
    fits = (sizes > 0) & (sizes <= MAX_LETTERS) & (others[starts + sizes] == others[starts])
    return keys_at(symbols, starts[fits], sizes[fits]), token_ids[fits]

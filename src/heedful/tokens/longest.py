"""Words -> pieces, many at once: greedy longest match on keys (`keys.py`)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.keys import MAX_LETTERS, Keys, KeyTable, keys_at
from heedful.tokens.lexicon import Cuts, Entries, Lexicon
from heedful.tokens.wordpiece import PREFIX


def longest_lexicon(tokens: Sequence[str], letters: Mapping[str, int], unknown_id: int) -> Lexicon:
    """Make a lexicon of words that are cut to the longest tokens.

    A token's number is its id. One more, `len(tokens)`, is that of a word of one letter that is
    unknown.

    Args:
        tokens: the tokens, in the order of their ids.
        letters: letter -> its byte. A token with any other character is none that a word is cut to.
        unknown_id: the one id of a word that cannot be put together from tokens.
    """
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    known = Entries(
        firsts=np.arange(len(tokens) + 1),
        counts=np.ones(len(tokens) + 1, np.int64),
        ids=np.append(np.arange(len(tokens)), unknown_id),
        begins=np.zeros(len(tokens) + 1, np.int64),
        ends=np.append(lengths, 1),
    )
    text = "".join((*tokens, PREFIX))  # so that two letters follow the start of each token
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    symbols = _symbols(codes, letters)
    # Where each token starts; those of the inside of words start behind their prefix.
    starts = bounds_of(lengths)[:-1]
    first, second = map(ord, PREFIX)
    inside = (lengths > 1) & (codes[starts] == first) & (codes[starts + 1] == second)
    token_ids = np.arange(len(tokens))
    heads = _spelled(symbols, starts, lengths, token_ids[~inside])
    tails = _spelled(symbols, starts + len(PREFIX), lengths - len(PREFIX), token_ids[inside])
    matches = LongestMatches(_table(*heads), _table(*tails), unknown_id)
    return Lexicon(known, *heads, matches.cut)


class LongestMatches:
    """Cuts words to the longest tokens.

    Args:
        heads: the tokens that words begin with, by the key of their letters.
        tails: the tokens inside words.
        unknown_id: see `longest_lexicon`.
    """

    def __init__(self, heads: KeyTable, tails: KeyTable, unknown_id: int) -> None:
        self._heads = heads
        self._tails = tails
        self._unknown_id = unknown_id

    def cut(self, keys: Keys, sizes: Indices) -> Cuts:
        """Return the pieces of words, given their keys and numbers of letters."""
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
        is_token = (numbers >= 0) & (lengths <= sizes[:, None])
        longest = len(lengths) - is_token[:, ::-1].argmax(axis=1)
        words = np.arange(len(sizes))
        return np.where(is_token.any(axis=1), numbers[words, longest - 1], -1), longest


def _table(keys: Keys, token_ids: Indices) -> KeyTable:
    table = KeyTable(int(token_ids.max(initial=0)) + 1)
    table.add(keys, token_ids)
    return table


def _symbols(codes: NDArray[np.uint32], letters: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return the byte of each letter, 0 for other characters, and some zeros behind them."""
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

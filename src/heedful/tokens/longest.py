"""Vectorized greedy longest match: split many words into pieces by their keys (`word_keys.py`)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.tokens.arrays import Indices, bounds_of
from heedful.tokens.lexicon import Entries, Lexicon, WordPieces
from heedful.tokens.word_keys import MAX_KEY_BYTES, Keys, KeyTable, keys_at
from heedful.tokens.wordpiece import PREFIX


def longest_lexicon(tokens: Sequence[str], letters: Mapping[str, int], unknown_id: int) -> Lexicon:
    """Build a lexicon that splits words into the longest tokens.

    A token's number is its id. The number `len(tokens)` is an unknown word of one letter.

    Args:
        tokens: the tokens, in the order of their ids.
        letters: letter -> its symbol. Words are never split into tokens with other characters.
        unknown_id: the single id of a word that no sequence of tokens spells.
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
    # The start of each token. Tokens inside words start after their prefix.
    starts = bounds_of(lengths)[:-1]
    first, second = map(ord, PREFIX)
    inside = (lengths > 1) & (codes[starts] == first) & (codes[starts + 1] == second)
    token_ids = np.arange(len(tokens))
    heads = _spelled(symbols, starts, lengths, token_ids[~inside])
    tails = _spelled(symbols, starts + len(PREFIX), lengths - len(PREFIX), token_ids[inside])
    matches = LongestMatches(_table(*heads), _table(*tails), unknown_id)
    return Lexicon(known, *heads, matches.cut)


class LongestMatches:
    """Splits words into the longest tokens.

    Args:
        heads: tokens at the start of a word, by the key of their letters.
        tails: tokens inside a word, by the key of their letters.
        unknown_id: see `longest_lexicon`.
    """

    def __init__(self, heads: KeyTable, tails: KeyTable, unknown_id: int) -> None:
        self._heads = heads
        self._tails = tails
        self._unknown_id = unknown_id

    def cut(self, keys: Keys, sizes: Indices) -> WordPieces:
        """Return the pieces of words, given their keys and lengths in letters."""
        words, begins = np.arange(len(sizes)), np.zeros(len(sizes), np.int64)
        is_known = np.ones(len(sizes), bool)
        cuts: list[tuple[Indices, Indices, Indices, Indices]] = []
        table, remaining = self._heads, keys
        while words.size:
            ids, lengths = self._longest(table, remaining, sizes[words] - begins)
            is_known[words[ids < 0]] = False
            ends = begins + lengths
            cuts.append((words, ids, begins, ends))
            continuing = np.flatnonzero((ids >= 0) & (ends < sizes[words]))
            remaining = remaining.at(continuing).after(lengths[continuing])
            words, begins, table = words[continuing], ends[continuing], self._tails
        unknown = np.flatnonzero(~is_known)
        cuts.append((unknown, np.full(len(unknown), self._unknown_id), 0 * unknown, sizes[unknown]))
        owners, ids, begins, ends = (np.concatenate(column) for column in zip(*cuts, strict=True))
        kept = is_known[owners]
        kept[len(owners) - len(unknown) :] = True
        order = np.flatnonzero(kept)[np.argsort(owners[kept], kind="stable")]
        counts = np.bincount(owners[order], minlength=len(sizes))
        return counts, ids[order], begins[order], ends[order]

    def _longest(self, table: KeyTable, keys: Keys, sizes: Indices) -> tuple[Indices, Indices]:
        """Return the id of the longest token that each word begins with, or -1, and its length."""
        # Look up all prefixes in one call, since call overhead dominates short operations.
        lengths = np.arange(1, sizes.max() + 1)
        numbers = table.find(keys.prefixes(lengths)).reshape(len(sizes), -1)
        is_token = (numbers >= 0) & (lengths <= sizes[:, None])
        longest = len(lengths) - is_token[:, ::-1].argmax(axis=1)
        words = np.arange(len(sizes))
        return np.where(is_token.any(axis=1), numbers[words, longest - 1], -1), longest


def _table(keys: Keys, token_ids: Indices) -> KeyTable:
    table = KeyTable(int(token_ids.max(initial=0)) + 1)
    table.add(keys, token_ids)
    return table


def _symbols(codes: NDArray[np.uint32], letters: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return the symbol of each letter, 0 for other characters, then zeros as padding."""
    table = np.zeros(int(codes.max(initial=0)) + 1, np.uint8)
    known = {ord(letter): symbol for letter, symbol in letters.items() if ord(letter) < len(table)}
    table[list(known)] = list(known.values())
    return np.concatenate([table.take(codes), np.zeros(MAX_KEY_BYTES + 8, np.uint8)])


def _spelled(
    symbols: NDArray[np.uint8], starts: Indices, sizes: Indices, token_ids: Indices
) -> tuple[Keys, Indices]:
    """Return the keys and ids of the tokens that have only letters and are short enough."""
    others = bounds_of(symbols == 0)
    starts, sizes = starts[token_ids], sizes[token_ids]
    fits = (sizes > 0) & (sizes <= MAX_KEY_BYTES) & (others[starts + sizes] == others[starts])
    return keys_at(symbols, starts[fits], sizes[fits]), token_ids[fits]

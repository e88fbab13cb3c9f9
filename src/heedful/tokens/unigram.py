"""Words -> token ids by a unigram model: the likeliest way to cut each (Kudo 2018, section 3.2)."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.unigram_bulk import Trie

PENALTY = 10.0
"""How much less likely an unknown character is than the least likely token."""

MANY = 256
"""Words from which on arrays cut them sooner than one by one."""
_TOKENS_A_WORD = 8
"""As many tokens can be got ready for that in the time in which a word is cut."""

Cut = list[tuple[int, int]]
"""The tokens of a word: the id of each, and where in the word it ends."""


class Unigram:
    """Cuts words into tokens, of which each has a probability, so that their product is largest.

    Of cuts that are equally likely, the one is taken whose last token is longest, then the one
    before it, and so on, as in the reference.

    Args:
        tokens: the tokens, in the order of their ids.
        scores: the logarithms of their probabilities.
        unknown_id: stands for a run of characters that are no tokens.
        byte_fallback: whether such a run is written in the tokens of its bytes (``<0xE2>``), if
            there is one for each.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Sequence[float],
        unknown_id: int,
        *,
        byte_fallback: bool,
    ) -> None:
        self._ids = {token: token_id for token_id, token in enumerate(tokens)}
        self._tokens, self._token_scores = tokens, scores
        self._trie: Trie | None = None
        self._met = 0
        self._unknown_id = unknown_id
        self._unknown_score = min(scores) - PENALTY
        # Every beginning of a token is in it, so that a search knows when to stop.
        self._scores: dict[str, float] = {}
        for token in tokens:
            for end in range(len(token) - 1, 0, -1):
                if token[:end] in self._scores:
                    break
                self._scores[token[:end]] = -inf
        self._scores |= {token: scores[token_id] for token, token_id in self._ids.items()}
        names = {f"<0x{byte:02X}>": byte for byte in range(256)} if byte_fallback else {}
        self._byte_ids = [self._ids.get(name, -1) for name in names]
        self.bytes: Mapping[str, int] = {
            name: at for name, at in names.items() if name in self._ids
        }
        """Tokens that stand for a byte, and the byte."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_trie": None}  # it is large, and soon made anew

    def together(self, words: int) -> "Trie | None":
        """Return what cuts so many words at once; None where that does not pay."""
        if words < MANY:
            return None
        self._met += words
        if self._trie is None and self._met * _TOKENS_A_WORD >= len(self._tokens):
            from heedful.tokens.unigram_bulk import Trie

            self._trie = Trie(
                self._tokens,
                self._token_scores,
                unknown_id=self._unknown_id,
                unknown_score=self._unknown_score,
            )
        return self._trie

    def cut(self, word: str) -> Cut:
        """Return the tokens of a word."""
        starts = self._starts(word)
        cut: Cut = []
        end = len(word)
        unknown_end = 0
        while end:
            start = starts[end]
            token_id = self._ids.get(word[start:end], self._unknown_id)
            if token_id != self._unknown_id:
                if unknown_end:
                    cut += self._unknown(word[end:unknown_end], unknown_end)
                    unknown_end = 0
                cut.append((token_id, end))
            elif not unknown_end:
                unknown_end = end
            end = start
        if unknown_end:
            cut += self._unknown(word[:unknown_end], unknown_end)
        cut.reverse()
        return cut

    def _starts(self, word: str) -> list[int]:
        """Return for each place in a word where the best last token before it starts."""
        size, scores, unknown = len(word), self._scores.get, self._unknown_score
        best = [0.0] + [-inf] * size
        starts = [0] * (size + 1)
        for start in range(size):
            before, end = best[start], start + 1
            score = scores(word[start:end])
            if score is None or score == -inf:
                total = before + unknown
                if total > best[end]:
                    best[end], starts[end] = total, start
            while score is not None:
                total = before + score
                if total > best[end]:
                    best[end], starts[end] = total, start
                if end == size:
                    break
                end += 1
                score = scores(word[start:end])
        return starts

    def _unknown(self, text: str, end: int) -> Cut:
        """Return the ids of a run of unknown characters, the last one first."""
        token_id = self._ids.get(text)
        if token_id is not None:
            return [(token_id, end)]
        byte_ids = [self._byte_ids[byte] for byte in text.encode()] if self._byte_ids else [-1]
        if -1 in byte_ids:
            return [(self._unknown_id, end)]
        return [(byte_id, end) for byte_id in reversed(byte_ids)]

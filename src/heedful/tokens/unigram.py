"""Unigram model: the most probable segmentation of each word (Kudo 2018, section 3.2)."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.unigram_bulk import Trie

PENALTY = 10.0
"""An unknown character's score is lower than the lowest token score by this much."""

MIN_BATCH_WORDS = 256
"""Minimum number of words for which array operations are faster than word by word."""
_TOKENS_PER_WORD = 8
"""Tokens that can be added to the trie in the time that segmenting one word takes."""

Segmentation = list[tuple[int, int]]
"""The segmentation of a word: the id and the end position of each token."""


class Unigram:
    """Segments words into the tokens with the largest product of probabilities.

    As in the reference, ties go to the segmentation whose last token is longest, then to the one
    whose second-to-last token is longest, and so on.

    Args:
        tokens: the tokens, in the order of their ids.
        scores: the log-probabilities of the tokens.
        unknown_id: the id of a run of characters that no token covers.
        byte_fallback: whether to write such a run as byte tokens (``<0xE2>``), if each of its
            bytes has a token.
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
        self._num_words = 0
        self.unknown_id = unknown_id
        self._unknown_score = min(scores) - PENALTY
        # Includes all prefixes of tokens, so that a search knows when to stop.
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
        """Byte token -> the byte."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_trie": None}  # large, and quick to rebuild

    def trie_for(self, words: int) -> "Trie | None":
        """Return the trie that segments this many words in a batch; None if not worthwhile."""
        if words < MIN_BATCH_WORDS:
            return None
        self._num_words += words
        if self._trie is None and self._num_words * _TOKENS_PER_WORD >= len(self._tokens):
            from heedful.tokens.unigram_bulk import Trie

            self._trie = Trie(
                self._tokens,
                self._token_scores,
                unknown_id=self.unknown_id,
                unknown_score=self._unknown_score,
            )
        return self._trie

    def segment(self, word: str) -> Segmentation:
        """Segment a word into tokens."""
        starts = self._starts(word)
        cut: Segmentation = []
        end = len(word)
        unknown_end = 0
        while end:
            start = starts[end]
            token_id = self._ids.get(word[start:end], self.unknown_id)
            if token_id != self.unknown_id:
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
        """Return, for each position in a word, the start of the best token that ends there."""
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

    def _unknown(self, text: str, end: int) -> Segmentation:
        """Return the ids of a run of unknown characters, in reverse order."""
        token_id = self._ids.get(text)
        if token_id is not None:
            return [(token_id, end)]
        byte_ids = [self._byte_ids[byte] for byte in text.encode()] if self._byte_ids else [-1]
        if -1 in byte_ids:
            return [(self.unknown_id, end)]
        return [(byte_id, end) for byte_id in reversed(byte_ids)]

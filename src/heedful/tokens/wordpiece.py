"""Words -> token ids: greedy longest-match WordPiece (Devlin et al. 2019, Wu et al. 2016)."""

from collections.abc import Collection, Mapping, Sequence

PREFIX = "##"
MAX_WORD = 100
"""Characters of the longest word that is taken apart; a longer one is unknown."""
MAX_WORDS = 2**17
"""Words that are remembered besides those that are tokens, before they are forgotten."""


class WordPiece(dict[str, tuple[int, ...]]):
    """Word -> its token ids, worked out when first asked for. Forgetting changes no result.

    Args:
        ids: token -> id; tokens that begin with ``##`` go on inside a word.
        unknown_id: the one id of a word that cannot be put together from tokens.
        whole_words: words that are looked up whole, and unknown if they are not there.
    """

    def __init__(
        self, ids: Mapping[str, int], unknown_id: int, *, whole_words: Collection[str]
    ) -> None:
        self._heads = ids
        self._tails = {token[2:]: at for token, at in ids.items() if token.startswith(PREFIX)}
        self._unknown = (unknown_id,)
        self._longest = max(map(len, ids))
        self._known = {token: (at,) for token, at in ids.items() if len(token) <= MAX_WORD}
        self._known |= {word: (ids.get(word, unknown_id),) for word in whole_words}
        super().__init__(self._known)

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD:
            return self._unknown
        found = self._pieces(word)
        if len(self) >= MAX_WORDS + len(self._known):
            self.clear()
            self.update(self._known)
        self[word] = found
        return found

    def _pieces(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        tokens, start, length = self._heads, 0, len(word)
        while start < length:
            for end in range(min(length, start + self._longest), start, -1):
                token = tokens.get(word[start:end])
                if token is not None:
                    found.append(token)
                    break
            else:
                return self._unknown
            tokens, start = self._tails, end
        return tuple(found)


def piece_ends(tokens: Sequence[str], word: str) -> list[int]:
    """Return where in its word each token ends.

    A word of one token ends with it, also where that token is the unknown one.
    """
    if len(tokens) == 1:
        return [len(word)]
    ends, at = [], 0
    for place, token in enumerate(tokens):
        at += len(token) - (len(PREFIX) if place else 0)
        ends.append(at)
    return ends

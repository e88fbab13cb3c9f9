"""Byte-pair encoding of words (Sennrich et al. 2016) at byte level (Radford et al. 2019)."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise, repeat

from heedful.errors import UserError

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
"""Bytes that vocabularies write as the character with the same code."""
_NOT_PRINTABLE = [byte for byte in range(256) if byte not in _PRINTABLE]
ALPHABET = tuple(
    chr(byte if byte in _PRINTABLE else 256 + _NOT_PRINTABLE.index(byte)) for byte in range(256)
)
"""The character for each byte in a vocabulary, never a space or a control character."""

Pair = tuple[str, str]
"""Two adjacent tokens that merge into one."""

_MAX_SCANNED_BYTES = 128
"""Bytes of the longest word whose pairs are all scanned after each merge. Longer words use a heap,
which costs more per merge but scales better with the length."""
_NEVER = 2**62


class BytePairs:
    """Splits words into tokens: repeatedly merges the adjacent pair with the lowest rank.

    Args:
        ids: token -> id, with a token for each byte.
        merges: the pairs, in the order learnt.
        source: where the vocabulary comes from, for messages.

    Raises:
        UserError: a byte has no token, or the tokens of a pair or its merged token do not exist.
    """

    def __init__(self, ids: Mapping[str, int], merges: Sequence[Pair], *, source: str) -> None:
        for byte, character in enumerate(ALPHABET):
            if character not in ids:
                raise UserError(
                    f"{source}: no token {character!r} for the byte {byte:#04x}; texts may hold any"
                )
        self.byte_ids = [ids[character] for character in ALPHABET]
        """The id of the token of each byte."""
        self.ranks: dict[tuple[int, int], int] = {}
        """Pair of adjacent ids -> its rank, the order in which pairs were learnt."""
        self.joined: list[int] = []
        """The id of the merged token of each rank."""
        for rank, (left, right) in enumerate(merges):
            try:
                self.ranks[ids[left], ids[right]] = rank
                self.joined.append(ids[left + right])
            except KeyError as error:
                raise UserError(
                    f"{source}: merge {rank + 1} is of {left!r} and {right!r}, but "
                    f"{error.args[0]!r} is not in the vocabulary"
                ) from None

    def ids(self, word: bytes) -> tuple[int, ...]:
        """Return the token ids of a word."""
        pieces = list(map(self.byte_ids.__getitem__, word))
        return tuple(
            self._merged(pieces) if len(pieces) <= _MAX_SCANNED_BYTES else self._merged_long(pieces)
        )

    def _merged(self, pieces: list[int]) -> list[int]:
        rank_of, joined = self.ranks.get, self.joined
        ranks = list(map(rank_of, pairwise(pieces), repeat(_NEVER)))
        while ranks:
            rank = min(ranks)
            if rank == _NEVER:
                break
            index = ranks.index(rank)
            pieces[index : index + 2] = [joined[rank]]
            del ranks[index]
            if index:
                ranks[index - 1] = rank_of((pieces[index - 1], pieces[index]), _NEVER)
            if index < len(ranks):
                ranks[index] = rank_of((pieces[index], pieces[index + 1]), _NEVER)
        return pieces

    def _merged_long(self, pieces: list[int]) -> list[int]:
        """Merge in the same order with a heap. A piece merged into the one before it becomes -1."""
        rank_of, joined, size = self.ranks.get, self.joined, len(pieces)
        following, preceding = list(range(1, size + 1)), list(range(-1, size - 1))
        # Encode rank and position of a pair in one number: of equal ranks, the leftmost is first.
        ranks = map(rank_of, pairwise(pieces))
        heap = [rank * size + index for index, rank in enumerate(ranks) if rank is not None]
        heapify(heap)
        while heap:
            rank, index = divmod(heappop(heap), size)
            after = following[index]
            # Skip stale heap entries, whose pair no longer exists.
            if (
                pieces[index] < 0
                or after == size
                or rank_of((pieces[index], pieces[after])) != rank
            ):
                continue
            pieces[index], pieces[after] = joined[rank], -1
            following[index] = after = following[after]
            if after < size:
                preceding[after] = index
            before = preceding[index]
            for left, right in ((before, index), (index, after)):
                if left >= 0 and right < size:
                    new_rank = rank_of((pieces[left], pieces[right]))
                    if new_rank is not None:
                        heappush(heap, new_rank * size + left)
        return [piece for piece in pieces if piece >= 0]


_BYTES = {character: byte for byte, character in enumerate(ALPHABET)}


def spelled(tokens: Sequence[str]) -> bytes:
    """Return the bytes that tokens spell; a token with other characters than `ALPHABET` as is."""
    parts = (
        bytes(map(_BYTES.__getitem__, token))
        if _BYTES.keys() >= set(token)
        else token.encode("utf-8", "ignore")
        for token in tokens
    )
    return b"".join(parts)

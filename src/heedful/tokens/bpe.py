"""Words -> token ids by byte pairs (Sennrich et al. 2016), on bytes (Radford et al. 2019)."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise, repeat

from heedful.errors import UserError

_SHOWN = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
"""Bytes that vocabularies write as the characters of the same number."""
_OTHERS = [byte for byte in range(256) if byte not in _SHOWN]
ALPHABET = tuple(chr(byte if byte in _SHOWN else 256 + _OTHERS.index(byte)) for byte in range(256))
"""The character that stands for each byte in a vocabulary. It is never a space or a control."""

Pair = tuple[str, str]
"""Two tokens that, side by side, become one."""

_SHORT = 128
"""Bytes of the longest word whose pairs are looked through anew after each merge; in longer ones a
heap keeps them in order, which takes more time a merge and less with the length."""
_NEVER = 2**62


class BytePairs:
    """Cuts words into tokens: of all pairs side by side, the one learnt first becomes one token.

    Args:
        ids: token -> id, with a token for each byte.
        merges: the pairs, in the order in which they were learnt.
        source: where they are from, for messages.

    Raises:
        UserError: a byte has no token, or a pair is none of tokens that make a token.
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
        """Ids side by side -> when their pair was learnt."""
        self.joined: list[int] = []
        """What the pair of each rank becomes."""
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
        """Return the ids of a word."""
        pieces = list(map(self.byte_ids.__getitem__, word))
        return tuple(self._merged(pieces) if len(pieces) <= _SHORT else self._merged_long(pieces))

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
        """Merge in the same order; a piece that became part of the one before it is -1."""
        rank_of, joined, size = self.ranks.get, self.joined, len(pieces)
        following, preceding = list(range(1, size + 1)), list(range(-1, size - 1))
        # A pair's rank and place in one number: of equal ranks, the leftmost comes first.
        ranks = map(rank_of, pairwise(pieces))
        heap = [rank * size + index for index, rank in enumerate(ranks) if rank is not None]
        heapify(heap)
        while heap:
            rank, index = divmod(heappop(heap), size)
            after = following[index]
            # Of a pair that is no more, the numbers are still there.
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
                    new = rank_of((pieces[left], pieces[right]))
                    if new is not None:
                        heappush(heap, new * size + left)
        return [piece for piece in pieces if piece >= 0]


_BYTES = {character: byte for byte, character in enumerate(ALPHABET)}


def spelled(tokens: Sequence[str]) -> bytes:
    """Return the bytes that tokens spell; one that is not of `ALPHABET` is taken as it is."""
    parts = (
        bytes(map(_BYTES.__getitem__, token))
        if _BYTES.keys() >= set(token)
        else token.encode("utf-8", "ignore")
        for token in tokens
    )
    return b"".join(parts)

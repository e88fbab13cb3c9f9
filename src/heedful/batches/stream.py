"""Examples of a streamed dataset: shards in random order, shuffled in a buffer.

The shards of an epoch are dealt to lanes, which are read in parallel, chunk by chunk. Each filling
of the buffer takes equally many examples from every lane. The buffer is then shuffled, used up in
training, and refilled. Examples that do not fill a whole step stay for the next filling. So a few
numbers describe the position of a stream. The random order depends only on the seed and the epoch,
not on how many processes share the lanes.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from heedful.batches.packed import Packed, join

Chunks = Callable[[int, int, int], Iterator[Packed]]
"""Yields the chunks of a shard, given the shard index, the epoch and the first chunk."""

Exchange = Callable[[Mapping[int, "Offer"]], Mapping[int, "Offer"]]
"""Takes the offers of this process's lanes; returns the offers of all processes' lanes."""


class LanePosition(NamedTuple):
    """The position of a lane."""

    shard: int
    """Index of the current shard within the lane's shards, from 0."""
    chunk: int
    used: int
    """Number of examples of this chunk already used."""


class _Span(NamedTuple):
    """Consecutive examples of a chunk."""

    shard: int
    chunk: int
    first: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Offer:
    """The next examples of a lane."""

    examples: Packed
    spans: tuple[_Span, ...]
    """The chunk positions of the examples."""
    more: bool
    """Whether the lane has further examples."""

    def mark_after(self, count: int) -> LanePosition:
        """Return the lane's position after ``count`` of these examples are used; at least one."""
        for span in self.spans:
            if count <= span.size:
                return LanePosition(span.shard, span.chunk, span.first + count)
            count -= span.size
        raise AssertionError("more than there are")


class Lane:
    """Shards that are read in sequence, no further ahead than requested.

    Args:
        shards: shard indices, in reading order.
        epoch: seeds the random draws.
        mark: the start position.
        chunks: reads a shard.
    """

    def __init__(
        self, shards: Sequence[int], epoch: int, mark: LanePosition, chunks: Chunks
    ) -> None:
        self.epoch, self.mark = epoch, mark
        self._pieces = _pieces(shards, epoch, mark, chunks)
        self._waiting: deque[tuple[_Span, Packed]] = deque()

    def peek(self, count: int) -> Offer:
        """Return the next examples, at most ``count``, without marking them as used."""
        num_waiting = sum(span.size for span, _ in self._waiting)
        while num_waiting <= count and (piece := next(self._pieces, None)) is not None:
            self._waiting.append(piece)
            num_waiting += piece[0].size
        spans, parts, remaining = [], [], count
        for span, packed in self._waiting:
            size = min(span.size, remaining)
            if size:
                spans.append(span._replace(size=size))
                parts.append(packed.part(span.first, span.first + size))
            remaining -= size
        return Offer(examples=join(parts), spans=tuple(spans), more=num_waiting > count)

    def use(self, count: int, mark: LanePosition) -> None:
        """Advance past ``count`` offered examples to the position ``mark``."""
        self.mark = mark
        while count:
            span, packed = self._waiting.popleft()
            if count < span.size:
                remainder = span._replace(first=span.first + count, size=span.size - count)
                self._waiting.appendleft((remainder, packed))
            count -= min(count, span.size)


def _pieces(
    shards: Sequence[int], epoch: int, mark: LanePosition, chunks: Chunks
) -> Iterator[tuple[_Span, Packed]]:
    for shard_index in range(mark.shard, len(shards)):
        first = mark.chunk if shard_index == mark.shard else 0
        for chunk, packed in enumerate(chunks(shards[shard_index], epoch, first), first):
            used = mark.used if (shard_index, chunk) == mark[:2] else 0
            if used < len(packed):
                yield _Span(shard_index, chunk, used, len(packed) - used), packed


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """The position of a stream when it fills its buffer."""

    epoch: int
    filling: int
    """Index of the filling within its epoch."""
    row: int
    """Number of examples of the epoch used before this filling."""
    marks: tuple[LanePosition | None, ...]
    """Position of each lane; None at its end."""

    @classmethod
    def first(cls, epoch: int, lanes: int) -> Self:
        """Return the start of an epoch."""
        return cls(epoch=epoch, filling=0, row=0, marks=(LanePosition(0, 0, 0),) * lanes)


class Buffer:
    """Fills the shuffle buffer, stage by stage.

    Args:
        shards: the number of shards.
        lanes: the number of lanes read in parallel. Each lane has at least one shard.
        size: approximate number of examples per filling.
        batch_size: each filling has a multiple of this number, except the last of an epoch.
        seed: seeds the shard order.
        chunks: reads a shard.
        reads: whether this process reads a lane.
        share: exchanges the offers of all processes.
    """

    def __init__(
        self,
        *,
        shards: int,
        lanes: int,
        size: int,
        batch_size: int,
        seed: int,
        chunks: Chunks,
        reads: Callable[[int], bool] = lambda lane: True,
        share: Exchange = lambda offers: offers,
    ) -> None:
        assert 0 < lanes <= shards
        self._shards, self._num_lanes = shards, lanes
        self._size, self._batch_size, self._seed = size, batch_size, seed
        self._chunks, self._reads, self._share = chunks, reads, share
        self._lanes: dict[int, Lane] = {}

    def fill(self, stage: StreamPosition) -> tuple[Packed, StreamPosition]:
        """Return the examples of a stage, and the next stage."""
        active_lanes = [lane for lane, mark in enumerate(stage.marks) if mark is not None]
        own_lanes = {lane: self._lane(lane, stage) for lane in active_lanes if self._reads(lane)}
        count = -(-self._size // len(active_lanes))
        while True:
            offers = self._share({index: lane.peek(count) for index, lane in own_lanes.items()})
            total = sum(len(offer.examples) for offer in offers.values())
            more = any(offer.more for offer in offers.values())
            if total >= self._batch_size or not more:
                break
            count *= 2
        remaining = total - total % self._batch_size if more else total
        marks, parts = list(stage.marks), []
        for index in active_lanes:
            offer = offers[index]
            used = min(len(offer.examples), remaining)
            remaining -= used
            mark = offer.mark_after(used) if used else stage.marks[index]
            assert mark is not None
            if index in own_lanes:
                own_lanes[index].use(used, mark)
            exhausted = used == len(offer.examples) and not offer.more
            marks[index] = None if exhausted else mark
            parts.append(offer.examples.part(0, used))
        examples = join(parts)
        if any(marks):
            next_stage = StreamPosition(
                epoch=stage.epoch,
                filling=stage.filling + 1,
                row=stage.row + len(examples),
                marks=tuple(marks),
            )
            return examples, next_stage
        self._lanes.clear()
        return examples, StreamPosition.first(stage.epoch + 1, self._num_lanes)

    def _lane(self, index: int, stage: StreamPosition) -> Lane:
        """Return the lane at the stage's position, reopened if necessary."""
        mark = stage.marks[index]
        assert mark is not None
        lane = self._lanes.get(index)
        if lane is None or (lane.epoch, lane.mark) != (stage.epoch, mark):
            order = shard_order(self._shards, self._seed, stage.epoch)
            lane = Lane(order[index :: self._num_lanes], stage.epoch, mark, self._chunks)
            self._lanes[index] = lane
        return lane


def shard_order(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the shard indices in the reading order of an epoch."""
    # numpy guarantees the raw output of a bit generator, but not that of `Generator.permutation`.
    generator = np.random.PCG64(np.random.SeedSequence([seed, epoch]))
    order: list[int] = np.argsort(generator.random_raw(shards), kind="stable").tolist()
    return order


def derived_seed(*numbers: int) -> int:
    """Return a seed derived from several numbers. It differs if any of them differs."""
    state = np.random.SeedSequence(numbers).generate_state(2)
    return int(state[0]) << 32 | int(state[1])

"""Examples of a text that is read by stream: shards in a random order, mixed in a buffer.

The shards of an epoch are dealt to lanes, which are read side by side, chunk by chunk. Each filling
of the buffer takes as much of every lane; the buffer is then shuffled, learnt from to its end, and
filled again. What does not fill a whole step stays for the next filling. So a few numbers say where
a stream stands, and what is drawn depends on the seed and the epoch alone: not on how many
processes share the lanes.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from heedful.batches.packed import Packed, join

Chunks = Callable[[int, int, int], Iterator[Packed]]
"""Gives the examples of the chunks of a shard: its number, the epoch, and the first chunk."""

Share = Callable[[Mapping[int, "Offer"]], Mapping[int, "Offer"]]
"""Gives the offers of the lanes of all processes for those of this one."""


class Mark(NamedTuple):
    """Where a lane stands."""

    shard: int
    """Which of its shards it reads, from 0."""
    chunk: int
    used: int
    """Examples of this chunk that were used."""


class _Span(NamedTuple):
    """Some examples of a chunk, one after another."""

    shard: int
    chunk: int
    first: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Offer:
    """The next examples of a lane."""

    examples: Packed
    spans: tuple[_Span, ...]
    """Where they come from."""
    more: bool
    """Whether others come after them."""

    def mark_after(self, count: int) -> Mark:
        """Return where the lane stands when some of them are used, at least one."""
        for span in self.spans:
            if count <= span.size:
                return Mark(span.shard, span.chunk, span.first + count)
            count -= span.size
        raise AssertionError("more than there are")


class Lane:
    """Shards that are read one after another, no further ahead than examples are asked for.

    Args:
        shards: their numbers, in the order in which they are read.
        epoch: for what is drawn.
        mark: where to begin.
        chunks: reads a shard.
    """

    def __init__(self, shards: Sequence[int], epoch: int, mark: Mark, chunks: Chunks) -> None:
        self.epoch, self.mark = epoch, mark
        self._pieces = _pieces(shards, epoch, mark, chunks)
        self._waiting: deque[tuple[_Span, Packed]] = deque()

    def peek(self, count: int) -> Offer:
        """Return the next examples, at most as many; they are not used yet."""
        ready = sum(span.size for span, _ in self._waiting)
        while ready <= count and (piece := next(self._pieces, None)) is not None:
            self._waiting.append(piece)
            ready += piece[0].size
        spans, parts, left = [], [], count
        for span, packed in self._waiting:
            part = min(span.size, left)
            if part:
                spans.append(span._replace(size=part))
                parts.append(packed.part(span.first, span.first + part))
            left -= part
        return Offer(examples=join(parts), spans=tuple(spans), more=ready > count)

    def use(self, count: int, mark: Mark) -> None:
        """Go on behind some of the examples that were offered, which is where a mark says."""
        self.mark = mark
        while count:
            span, packed = self._waiting.popleft()
            if count < span.size:
                rest = span._replace(first=span.first + count, size=span.size - count)
                self._waiting.appendleft((rest, packed))
            count -= min(count, span.size)


def _pieces(
    shards: Sequence[int], epoch: int, mark: Mark, chunks: Chunks
) -> Iterator[tuple[_Span, Packed]]:
    for number in range(mark.shard, len(shards)):
        first = mark.chunk if number == mark.shard else 0
        for chunk, packed in enumerate(chunks(shards[number], epoch, first), first):
            used = mark.used if (number, chunk) == mark[:2] else 0
            if used < len(packed):
                yield _Span(number, chunk, used, len(packed) - used), packed


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Where a stream stands when it fills its buffer."""

    epoch: int
    filling: int
    """The number of the filling in its epoch."""
    row: int
    """Examples of the epoch that were used before."""
    marks: tuple[Mark | None, ...]
    """Of each lane; None at its end."""

    @classmethod
    def first(cls, epoch: int, lanes: int) -> Self:
        """Return the beginning of an epoch."""
        return cls(epoch=epoch, filling=0, row=0, marks=(Mark(0, 0, 0),) * lanes)


class Buffer:
    """What fills the buffer, stage by stage.

    Args:
        shards: how many there are.
        lanes: how many are read side by side; each has one at least.
        size: examples of a filling, about.
        batch_size: what the number of examples is a multiple of, but for an epoch's last filling.
        seed: of the order of the shards.
        chunks: reads a shard.
        reads: whether this process reads a lane.
        share: makes the offers of all processes known to each.
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
        share: Share = lambda offers: offers,
    ) -> None:
        assert 0 < lanes <= shards
        self._shards, self._num_lanes = shards, lanes
        self._size, self._batch_size, self._seed = size, batch_size, seed
        self._chunks, self._reads, self._share = chunks, reads, share
        self._lanes: dict[int, Lane] = {}

    def fill(self, stage: Stage) -> tuple[Packed, Stage]:
        """Return the examples of a stage, and the next stage."""
        alive = [lane for lane, mark in enumerate(stage.marks) if mark is not None]
        mine = {lane: self._lane(lane, stage) for lane in alive if self._reads(lane)}
        count = -(-self._size // len(alive))
        while True:
            offers = self._share({number: lane.peek(count) for number, lane in mine.items()})
            total = sum(len(offer.examples) for offer in offers.values())
            more = any(offer.more for offer in offers.values())
            if total >= self._batch_size or not more:
                break
            count *= 2
        left = total - total % self._batch_size if more else total
        marks, parts = list(stage.marks), []
        for number in alive:
            offer = offers[number]
            used = min(len(offer.examples), left)
            left -= used
            mark = offer.mark_after(used) if used else stage.marks[number]
            assert mark is not None
            if number in mine:
                mine[number].use(used, mark)
            ended = used == len(offer.examples) and not offer.more
            marks[number] = None if ended else mark
            parts.append(offer.examples.part(0, used))
        examples = join(parts)
        if any(marks):
            following = Stage(
                epoch=stage.epoch,
                filling=stage.filling + 1,
                row=stage.row + len(examples),
                marks=tuple(marks),
            )
            return examples, following
        self._lanes.clear()
        return examples, Stage.first(stage.epoch + 1, self._num_lanes)

    def _lane(self, number: int, stage: Stage) -> Lane:
        """Return a lane where a stage wants it: as it is, or opened anew."""
        mark = stage.marks[number]
        assert mark is not None
        lane = self._lanes.get(number)
        if lane is None or (lane.epoch, lane.mark) != (stage.epoch, mark):
            order = order_of(self._shards, self._seed, stage.epoch)
            lane = Lane(order[number :: self._num_lanes], stage.epoch, mark, self._chunks)
            self._lanes[number] = lane
        return lane


def order_of(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the numbers of shards in the order in which an epoch reads them."""
    # numpy promises the raw output of a bit generator, but not that of `Generator.permutation`.
    bits = np.random.PCG64(np.random.SeedSequence([seed, epoch]))
    order: list[int] = np.argsort(bits.random_raw(shards), kind="stable").tolist()
    return order


def drawn_from(*numbers: int) -> int:
    """Return a seed that differs where any of some numbers does."""
    state = np.random.SeedSequence(numbers).generate_state(2)
    return int(state[0]) << 32 | int(state[1])

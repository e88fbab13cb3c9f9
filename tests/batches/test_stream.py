"""A stream yields each example once an epoch, with any number of readers, and resumes exactly."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.batches import Example
from heedful.batches.packed import Packed, pack
from heedful.batches.stream import Buffer, Offer, StreamPosition, derived_seed, shard_order

TEXTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=7)
"""Of each shard, the examples of each chunk."""


@dataclass
class Text:
    """Shards whose examples are numbers; counts the reads."""

    sizes: list[list[int]]
    reads: Counter[tuple[int, int]] = field(default_factory=Counter)

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        self.reads[shard, epoch] += 1
        for chunk, size in enumerate(self.sizes[shard]):
            if chunk >= first:
                numbers = [shard * 10_000 + chunk * 100 + number for number in range(size)]
                yield pack([Example(ids=np.array([epoch, one], np.int32)) for one in numbers])

    @property
    def numbers(self) -> list[int]:
        return [
            int(example.ids[1])
            for shard in range(len(self.sizes))
            for packed in self.chunks(shard, 0, 0)
            for example in packed
        ]


@dataclass(frozen=True)
class Case:
    sizes: list[list[int]]
    lanes: int
    size: int
    batch_size: int
    seed: int

    def buffer(self, text: Text, **options: object) -> Buffer:
        return Buffer(
            shards=len(self.sizes),
            lanes=min(self.lanes, len(self.sizes)),
            size=self.size,
            batch_size=self.batch_size,
            seed=self.seed,
            chunks=text.chunks,
            **options,  # type: ignore[arg-type]
        )

    def stage(self, epoch: int = 0) -> StreamPosition:
        return StreamPosition.first(epoch, min(self.lanes, len(self.sizes)))


CASES = st.builds(
    Case,
    sizes=TEXTS.filter(lambda sizes: sum(map(sum, sizes)) > 0),
    lanes=st.integers(1, 4),
    size=st.integers(1, 30),
    batch_size=st.integers(1, 8),
    seed=st.integers(0, 3),
)


def numbers_of(packed: Packed) -> list[tuple[int, int]]:
    return [(int(example.ids[0]), int(example.ids[1])) for example in packed]


def fillings(
    buffer: Buffer, stage: StreamPosition, epochs: int
) -> list[tuple[StreamPosition, list[tuple[int, int]]]]:
    """Fill the buffer to the end of an epoch, and record each stage with its output."""
    filled = []
    while stage.epoch < epochs:
        before = stage
        packed, stage = buffer.fill(stage)
        filled.append((before, numbers_of(packed)))
    return filled


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_each_epoch_has_every_example_once_and_reads_every_shard_once(case: Case) -> None:
    text = Text(case.sizes)
    filled = fillings(case.buffer(text), case.stage(), 2)
    for epoch in (0, 1):
        of_epoch = [(stage, numbers) for stage, numbers in filled if stage.epoch == epoch]
        seen = [number for _, numbers in of_epoch for number in numbers]
        assert sorted(one for _, one in seen) == sorted(text.numbers)
        assert {drawn for drawn, _ in seen} == {epoch}
        for stage, numbers in of_epoch[:-1]:
            assert len(numbers) % case.batch_size == 0
            assert len(numbers) >= case.batch_size
            assert stage.row == sum(len(n) for s, n in of_epoch if s.filling < stage.filling)
        for shard in range(len(case.sizes)):
            expected = 1 + (epoch == 0)  # once by `Text.numbers`
            assert text.reads[shard, epoch] == expected


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(0, 100))
def test_a_stream_goes_on_from_any_stage_as_if_it_had_never_stopped(case: Case, at: int) -> None:
    whole = fillings(case.buffer(Text(case.sizes)), case.stage(), 2)
    index = at % len(whole)
    assert fillings(case.buffer(Text(case.sizes)), whole[index][0], 2) == whole[index:]


@settings(max_examples=25, deadline=None)
@given(CASES, st.integers(2, 4))
def test_processes_get_what_one_gets_and_share_the_reading(case: Case, size: int) -> None:
    alone = fillings(case.buffer(Text(case.sizes)), case.stage(), 2)
    text = Text(case.sizes)
    barrier = threading.Barrier(size, timeout=30)
    table: list[Mapping[int, Offer]] = [{}] * size

    def process(rank: int) -> list[tuple[StreamPosition, list[tuple[int, int]]]]:
        def share(offers: Mapping[int, Offer]) -> Mapping[int, Offer]:
            table[rank] = offers
            barrier.wait()
            merged = {lane: offer for each in table for lane, offer in each.items()}
            barrier.wait()
            return merged

        buffer = case.buffer(text, reads=lambda lane: lane % size == rank, share=share)
        return fillings(buffer, case.stage(), 2)

    with ThreadPoolExecutor(size) as pool:
        results = list(pool.map(process, range(size)))
    assert all(result == alone for result in results)
    assert set(text.reads.values()) == {1}


def test_the_order_of_shards_depends_on_seed_and_epoch() -> None:
    assert shard_order(20, 3, 1) == shard_order(20, 3, 1)
    assert sorted(shard_order(20, 3, 1)) == list(range(20))
    assert len({tuple(shard_order(20, seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    assert len({derived_seed(*numbers) for numbers in [(0, 1, 2), (0, 2, 1), (1, 1, 2)]}) == 3

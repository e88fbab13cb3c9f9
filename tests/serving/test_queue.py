"""Batches are filled in fair turns, within the token limit, and hold one kind of request."""

import asyncio
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some

from heedful.serving.queue import Batch, Queue, Ticket
from heedful.settings import PredictSettings

PLAIN, OTHER = PredictSettings(), PredictSettings(top=3)


def ticket(
    *tokens: int,
    settings: PredictSettings = PLAIN,
    predictor: Any = None,
    generated: int = 0,
) -> Ticket:
    """Return a ticket of records with these numbers of tokens."""
    records: list[Any] = [f"{index}" for index in range(len(tokens))]
    done: Any = None
    return Ticket(
        predictor=predictor,
        settings=settings,
        records=records,
        encoded=[],
        tokens=list(tokens),
        generated=generated,
        done=done,
    )


def taken(queue: Queue) -> Batch:
    """Take a batch that must be there."""
    batch = queue.next_batch()
    assert batch is not None
    return batch


def test_a_long_request_does_not_hold_up_a_short_one() -> None:
    queue = Queue(batch_tokens=40)
    long, short = ticket(*[10] * 1000), ticket(10)
    queue.put(long)
    queue.put(short)
    batch = taken(queue)
    assert [one for one, _ in batch.items] == [long, short, long, long]
    assert (queue.items, queue.tokens) == (997, 9970)


def test_requests_take_turns_over_batches() -> None:
    queue = Queue(batch_tokens=20)
    tickets = [ticket(10, 10), ticket(10, 10), ticket(10, 10)]
    for one in tickets:
        queue.put(one)
    order = [one for _ in range(3) for one, _ in taken(queue).items]
    assert order == [*tickets, *tickets]
    assert queue.next_batch() is None


@pytest.mark.parametrize(("settings", "predictor"), [(OTHER, None), (PLAIN, "reloaded")])
def test_other_settings_and_other_models_are_not_mixed(
    settings: PredictSettings, predictor: str | None
) -> None:
    queue = Queue(batch_tokens=100)
    first, other = ticket(10, 10), ticket(10, settings=settings, predictor=predictor)
    last = ticket(10)
    for one in (first, other, last):
        queue.put(one)
    assert queue.batches == 2
    assert {id(one) for one, _ in taken(queue).items} == {id(first), id(last)}
    batch = taken(queue)
    assert (batch.settings, batch.predictor) == (settings, predictor)
    assert [one for one, _ in batch.items] == [other]


def test_those_with_other_settings_come_next() -> None:
    queue = Queue(batch_tokens=10)
    queue.put(ticket(*[10] * 50))
    queue.put(ticket(10, settings=OTHER))
    kinds = [taken(queue).settings for _ in range(3)]
    assert OTHER in kinds[:2]


def test_a_record_longer_than_a_batch_is_alone() -> None:
    queue = Queue(batch_tokens=10)
    queue.put(ticket(50, 5, 5))
    assert [len(taken(queue).items) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(("generated", "most"), [(640, 5), (641, 4), (10_000, 1)])
def test_a_batch_is_small_where_much_is_generated(generated: int, most: int) -> None:
    queue = Queue(batch_tokens=100)
    queue.put(ticket(*[1] * 20, generated=generated))
    assert len(taken(queue).items) == most


def test_a_batch_is_wanted_until_all_have_left() -> None:
    queue = Queue(batch_tokens=100)
    tickets = [ticket(10), ticket(10)]
    with closing(asyncio.new_event_loop()) as loop:
        for one in tickets:
            one.done = loop.create_future()
            queue.put(one)
        batch = taken(queue)
        for one in tickets:
            assert batch.is_wanted
            one.done.cancel()
        assert not batch.is_wanted


def test_who_leaves_takes_all_along() -> None:
    queue = Queue(batch_tokens=20)
    stays, leaves = ticket(10), ticket(10, 10, 10)
    queue.put(leaves)
    queue.put(stays)
    taken(queue)
    queue.remove(leaves)
    queue.remove(leaves)  # nothing is counted twice
    queue.remove(stays)
    assert (queue.items, queue.tokens, queue.tokens_ahead) == (0, 0, 0)
    assert queue.next_batch() is None


def test_a_long_request_lets_a_new_one_in_after_a_batch() -> None:
    queue = Queue(batch_tokens=100)
    queue.put(ticket(*[10] * 1000))
    assert (queue.tokens, queue.tokens_ahead) == (10_000, 100)


@examples(max_examples=50)
@given(
    requests=some.lists(
        some.tuples(
            some.lists(some.integers(1, 60), min_size=1, max_size=8), some.sampled_from([0, 1])
        ),
        max_size=12,
    ),
    batch_tokens=some.integers(1, 100),
    dropped=some.sets(some.integers(0, 11)),
)
def test_every_record_is_computed_once(
    requests: list[tuple[list[int], int]], batch_tokens: int, dropped: set[int]
) -> None:
    queue = Queue(batch_tokens)
    tickets = [ticket(*tokens, settings=(PLAIN, OTHER)[kind]) for tokens, kind in requests]
    for one in tickets:
        queue.put(one)
    for index, one in enumerate(tickets):
        if index in dropped:
            queue.remove(one)
    kept = [one for index, one in enumerate(tickets) if index not in dropped]
    seen = []
    while (batch := queue.next_batch()) is not None:
        assert batch.tokens == sum(one.tokens[row] for one, row in batch.items)
        assert batch.tokens <= batch_tokens or len(batch.items) == 1
        assert {one.settings for one, _ in batch.items} == {batch.settings}
        seen += [(id(one), row) for one, row in batch.items]
    assert sorted(seen) == sorted((id(one), row) for one in kept for row in range(len(one.tokens)))
    assert (queue.items, queue.tokens, queue.tokens_ahead) == (0, 0, 0)

"""Prefetched items come in order, one at a time; errors are raised in their position."""

import threading
from collections.abc import Iterator

import pytest

from heedful.reading.prefetch import arriving, prefetch_one


def test_order_is_kept() -> None:
    assert list(prefetch_one(range(100))) == list(range(100))
    assert list(prefetch_one([])) == []


def test_one_item_alone_is_made_while_another_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    coming = prefetch_one(items())
    assert next(coming) == 0
    assert made[1].wait(timeout=60)  # nobody has asked for it yet
    assert not made[2].is_set()
    coming.close()  # type: ignore[attr-defined]
    assert not made[2].is_set()


def test_an_error_comes_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("line 2")

    coming = prefetch_one(items())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="line 2"):
        next(coming)


def test_items_that_have_arrived_come_together() -> None:
    assert [item for part in arriving(range(100), 7) for item in part] == list(range(100))
    assert list(arriving([], 7)) == []
    more = threading.Event()

    def items() -> Iterator[int]:
        yield from (1, 2)
        assert more.wait(timeout=60)
        yield from range(3, 8)
        raise ValueError("line 8")

    coming = arriving(items(), 3)
    assert next(coming) == [1, 2]
    more.set()
    assert [next(coming), next(coming)] == [[3, 4, 5], [6, 7]]
    with pytest.raises(ValueError, match="line 8"):
        next(coming)

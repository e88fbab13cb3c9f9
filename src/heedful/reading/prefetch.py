"""Prefetch the next item in a thread while the current one is in use, or wait for it there."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")

_PATIENCE = 0.1
"""Seconds in which others may join an item that has arrived: time to read a few thousand lines."""


@dataclass(frozen=True, slots=True)
class _End:
    """Comes after the last item."""

    error: Exception | None


def prefetch_one(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items in order, one prefetched; an exception is raised in place of its item.

    Closing the iterator waits for the item in progress, so no item may take long.
    """
    source = iter(items)
    end = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as thread:
        pending = thread.submit(next, source, end)
        while (item := pending.result()) is not end:
            pending = thread.submit(next, source, end)
            yield item  # type: ignore[misc]


def arriving(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of the items that have arrived, in order; an exception is raised in its turn.

    A thread waits for the items, which may take long. If the iterator is closed before their end,
    the thread is left behind, and ends with the process.

    Args:
        items: the items.
        size: maximum number of items of a list.
    """
    queue: Queue[Item | _End] = Queue(size)

    def read() -> None:
        with suppress(Exception):  # it is raised in the other thread
            try:
                for item in items:
                    queue.put(item)
                queue.put(_End(None))
            except Exception as error:
                queue.put(_End(error))
                raise

    Thread(target=read, daemon=True, name="arriving").start()
    while True:
        arrived: list[Item] = []
        item, deadline = _wait(queue), monotonic() + _PATIENCE
        while not isinstance(item, _End):
            arrived.append(item)
            if len(arrived) == size:
                break
            try:
                item = queue.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                break
        if arrived:
            yield arrived
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return


def _wait(queue: Queue[Item]) -> Item:
    """Wait for an item, with pauses: on Windows, Ctrl-C is noticed only in between."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=1)

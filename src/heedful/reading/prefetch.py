"""Prefetch the next item in a thread while the current one is in use."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


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

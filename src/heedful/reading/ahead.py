"""The next item made in a thread, while the one before it is used."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items in their order, and what raises while one is made.

    To stop waits for the item that is being made, so none may be long in coming.
    """
    source = iter(items)
    end = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as thread:
        coming = thread.submit(next, source, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, source, end)
            yield item  # type: ignore[misc]

"""The few items of the highest values in a stream of many."""

import heapq
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Highest(Generic[ItemT]):
    """Keeps some items; of equal values the earlier items stay.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, ItemT]] = []

    def add(self, value: float, number: int, item: ItemT) -> None:
        """Take in an item.

        Args:
            value: by which it is kept.
            number: its own in the stream, so that two are never compared themselves.
            item: the item.
        """
        entry = (value, -number, item)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def sorted(self) -> list[ItemT]:
        """Return the items, the highest first."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: entry[:2])[::-1]]

"""Top-k items of a stream."""

import heapq
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class TopK(Generic[ItemT]):
    """Keeps the items with the highest values. Among equal values, earlier items are kept.

    Args:
        size: number of items to keep.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, ItemT]] = []

    def add(self, value: float, number: int, item: ItemT) -> None:
        """Add an item.

        Args:
            value: the value to rank it by.
            number: its unique number in the stream, which breaks ties without comparing items.
            item: the item.
        """
        entry = (value, -number, item)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def sorted(self) -> list[ItemT]:
        """Return the items, highest value first."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: entry[:2])[::-1]]

"""Processes that train one model together. With a single one nothing here costs anything.

A run's files, logs and messages have one writer, the first rank. Each rank takes its share of a
step's micro-batches and of what is evaluated; counts are summed over all ranks before anything is
divided by them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor

Item = TypeVar("Item")


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if _together() else 0


def size() -> int:
    """Return how many processes train together."""
    return dist.get_world_size() if _together() else 1


def is_first() -> bool:
    """Tell whether this process writes files, logs and messages."""
    return rank() == 0


def total(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes."""
    if size() == 1:
        return tensor
    summed = tensor.clone()
    dist.all_reduce(summed)
    return summed


def barrier() -> None:
    """Wait until every process is here."""
    if size() > 1:
        dist.barrier()


def share(items: Sequence[Item]) -> Sequence[Item]:
    """Return this process's share of a sequence."""
    return items if size() == 1 else items[rank() :: size()]


def stream(items: Iterable[Item]) -> Iterator[Item]:
    """Yield this process's share of a stream."""
    return islice(iter(items), rank(), None, size())


def _together() -> bool:
    return dist.is_available() and dist.is_initialized()

"""Compute several batches at a time on a CPU.

After each operation the threads of a batch wait for one another, and short operations gain little
from a second thread. With fewer threads for each batch, and several batches at a time, less time is
lost. ``docs/performance.md`` has the measurements.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

from heedful.cancellation import cancellable

_MOST_AT_ONCE = 4
"""Maximum number of batches at a time: each takes memory, and Python starts the operations of only
one of them at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_at_once() -> int:
    """Return how many batches to compute at a time with the threads that torch uses now."""
    return min(torch.get_num_threads(), _MOST_AT_ONCE)


def shared_evenly(threads: int, at_once: int) -> list[int]:
    """Return the number of threads of each batch; all threads are used."""
    return [(threads + number) // at_once for number in range(at_once)]


def compute_batches(
    compute: Callable[[Item], Result], batches: Sequence[Item], at_once: int
) -> Iterator[Result]:
    """Yield the result of each batch, in order.

    The batches share torch's threads. Those left over at the end, which are too few to keep all
    threads busy, are computed one after the other with all threads.

    Args:
        compute: computes a batch. Several threads call it at the same time.
        batches: the batches; all should take about the same time.
        at_once: how many to compute at a time.
    """
    at_once = max(1, min(at_once, len(batches)))
    num_parallel = len(batches) // at_once * at_once if at_once > 1 else 0
    if num_parallel:
        yield from _in_parallel(compute, batches[:num_parallel], at_once)
    yield from map(compute, batches[num_parallel:])


def _in_parallel(
    compute: Callable[[Item], Result], batches: Sequence[Item], at_once: int
) -> Iterator[Result]:
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise CancelledError

    def run(batch: Item) -> Result:
        with cancellable(check):
            return compute(batch)

    threads = torch.get_num_threads()
    shares = iter(shared_evenly(threads, at_once))
    started = threading.Barrier(at_once + 1)

    def start() -> None:
        torch.get_num_threads()  # takes the number that was set last, by whichever thread
        torch.set_num_threads(next(shares))
        started.wait()

    with ThreadPoolExecutor(at_once, "batch") as pool:
        try:
            for _ in range(at_once):
                pool.submit(start)
            started.wait()
            # Other threads that use torch for the first time take the number that was set last.
            torch.set_num_threads(threads)
            # A copy of the context also has the check of the caller; see `cancellable`.
            futures = [pool.submit(copy_context().run, run, batch) for batch in batches]
            for future in futures:
                yield future.result()
        finally:
            stopped.set()
            started.abort()  # or the threads would wait for this one if it was interrupted
            pool.shutdown(wait=False, cancel_futures=True)

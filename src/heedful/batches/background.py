"""Shards read in other processes, some chunks ahead of what is asked for."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing import parent_process

from heedful.batches.packed import Packed
from heedful.batches.stream import Chunks
from heedful.batches.workers import pool, result_of

_AHEAD = 3
"""Chunks of a shard that wait: enough for the next filling of a buffer, few enough for memory."""


class Background:
    """Reads shards in processes of its own; what they give is the same.

    Args:
        chunks: reads a shard; it is sent to the processes once.
        processes: how many; each reads whole shards, several of them in turn.
    """

    def __init__(self, chunks: Chunks, processes: int) -> None:
        # One pool for each, for it must be the same process that goes on with a shard.
        self._pools = [pool(1, _start, (chunks,)) for _ in range(processes)]
        self._numbers = count()

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        """Do what the function does that was given."""
        number = next(self._numbers)
        process = self._pools[number % len(self._pools)]
        coming: deque[Future[Packed | None]] = deque(
            process.submit(_next, number, shard, epoch, first) for _ in range(_AHEAD)
        )
        try:
            while (packed := result_of(coming.popleft())) is not None:
                coming.append(process.submit(_next, number, shard, epoch, first))
                yield packed
        finally:
            for future in coming:
                future.cancel()
            with suppress(RuntimeError):  # the process has ended
                process.submit(_leave, number)


_chunks: Chunks | None = None
_open: dict[int, Iterator[Packed]] = {}
"""What a process reads, by the number that it was asked with."""


def _start(chunks: Chunks) -> None:
    global _chunks
    _chunks = chunks
    for name in ("SIGINT", "SIGHUP", "SIGUSR1"):  # sent to all, but meant for the one that trains
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that trains is killed, which could not tell it."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _next(number: int, shard: int, epoch: int, first: int) -> Packed | None:
    assert _chunks is not None
    if number not in _open:
        _open[number] = _chunks(shard, epoch, first)
    return next(_open[number], None)


def _leave(number: int) -> None:
    _open.pop(number, None)

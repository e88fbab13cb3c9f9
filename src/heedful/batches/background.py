"""Read shards in worker processes, a few chunks ahead of the consumer."""

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

_PREFETCH_CHUNKS = 3
"""Chunks of a shard to prefetch: enough to refill a buffer once, few enough to limit memory."""


class Background:
    """Reads shards in worker processes; the examples are the same as without them.

    Args:
        chunks: reads a shard. It is sent to each process once.
        processes: the number of processes. Each reads whole shards and may interleave several.
    """

    def __init__(self, chunks: Chunks, processes: int) -> None:
        # One pool per process, because the process that starts a shard must also continue it.
        self._pools = [pool(1, _start, (chunks,)) for _ in range(processes)]
        self._requests = count()

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        """Yield the chunks of a shard, like the constructor's argument ``chunks``."""
        request = next(self._requests)
        process = self._pools[request % len(self._pools)]
        pending: deque[Future[Packed | None]] = deque(
            process.submit(_next, request, shard, epoch, first) for _ in range(_PREFETCH_CHUNKS)
        )
        try:
            while (packed := result_of(pending.popleft())) is not None:
                pending.append(process.submit(_next, request, shard, epoch, first))
                yield packed
        finally:
            for future in pending:
                future.cancel()
            with suppress(RuntimeError):  # the process has exited
                process.submit(_close, request)


_chunks: Chunks | None = None
_open_shards: dict[int, Iterator[Packed]] = {}
"""The shards that this process is reading, by request number."""


def _start(chunks: Chunks) -> None:
    global _chunks
    _chunks = chunks
    for name in ("SIGINT", "SIGHUP", "SIGUSR1"):  # sent to all, but meant for the training process
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the training process is killed, because it could not stop this one."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _next(request: int, shard: int, epoch: int, first: int) -> Packed | None:
    assert _chunks is not None
    if request not in _open_shards:
        _open_shards[request] = _chunks(shard, epoch, first)
    return next(_open_shards[request], None)


def _close(request: int) -> None:
    _open_shards.pop(request, None)

"""Keep the memory use of a server constant over many requests of varying lengths."""

import asyncio

from heedful.training.allocator import return_free_memory

RETURN_SECONDS = 30.0
"""Interval at which free memory is returned to the operating system."""


async def keep_returning_memory() -> None:
    """Return free memory to the operating system at regular intervals.

    Batches of varying shapes fragment the heap of the thread that computes them.
    """
    while True:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(return_free_memory)

"""What keeps the memory of a server flat, however many texts of whatever lengths it answers."""

import asyncio

from heedful.training.allocator import return_free_memory

RETURN_SECONDS = 30.0
"""How often free memory is handed back."""


async def keep_returning_memory() -> None:
    """Hand free memory back to the system every now and then.

    Batches of ever other shapes leave holes on the heap of the thread that computes them.
    """
    while True:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(return_free_memory)

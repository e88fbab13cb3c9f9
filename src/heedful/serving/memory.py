"""What keeps the memory of a server flat, however many texts of whatever lengths it answers."""

import asyncio
import os

from heedful.training.allocator import return_free_memory

RETURN_SECONDS = 30.0
"""How often free memory is handed back."""

_KERNELS = 512
_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables: how many compiled kernels oneDNN keeps, and how many torch keeps of it."""


def keep_few_kernels() -> None:
    """Keep fewer compiled kernels than by default; what the user has set stays.

    oneDNN compiles a kernel for each shape of a product, some 0.7 MiB and 1 ms each, and by default
    torch keeps two times 1,024 of them: more than a GiB after some hundred batches. Call this
    before the first product; later it has no effect.
    """
    for name in _CACHES:
        os.environ.setdefault(name, str(_KERNELS))


async def keep_returning_memory() -> None:
    """Hand free memory back to the system every now and then.

    Batches of ever other shapes leave holes on the heap of the thread that computes them.
    """
    while True:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(return_free_memory)

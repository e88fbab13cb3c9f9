"""What is kept in memory between steps and batches: freed buffers, and compiled kernels."""

import ctypes
import os
import sys
from collections.abc import Callable

# <malloc.h>: how much free memory at the top of the heap is given back to the system, from which
# size a block has a mapping of its own, and how many may have one. (That size cannot be raised
# above 32 MiB, which the gradient of a vocabulary exceeds.)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_KEPT_BYTES, _RETURNED_BYTES = 2**31 - 1, 2**21
_MAPPINGS = 2**16  # as many as by itself

_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables: how many compiled kernels oneDNN keeps, and how many torch keeps of it."""


def keep_few_kernels(kernels: int) -> None:
    """Keep fewer compiled kernels than by default; what the user has set stays.

    oneDNN compiles a kernel for each shape of a product, some 0.7 MiB and 1 ms each, and by default
    torch keeps two times 1,024 of them: more than a GiB after some hundred batches. Call this
    before the first product; later it has no effect.
    """
    for name in _CACHES:
        os.environ.setdefault(name, str(kernels))


def use_huge_pages() -> None:
    """Have torch ask for pages of 2 MiB for its big tensors; what the user has set stays.

    Memory that is handed back and taken again costs a page fault for each page. Call this before
    the first tensor; later it has no effect.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_big_buffers() -> bool:
    """Ask the C allocator to keep freed memory instead of handing it back at every step.

    glibc gives a large block a mapping of its own and takes the mapping away when it is freed, so
    every step pays a page fault for each 4 KiB of its activations and gradients. Returns whether
    the allocator took the hint.
    """
    return _tell_allocator({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _KEPT_BYTES})


def return_big_buffers() -> bool:
    """Ask the C allocator to hand freed memory back at once, however often that happens.

    By itself glibc learns to keep blocks of up to 32 MiB on its heaps, whose holes then come to
    more than what training with gradient checkpointing has in use. Returns whether the allocator
    took the hint.
    """
    return _tell_allocator(
        {
            _M_MMAP_MAX: _MAPPINGS,
            _M_MMAP_THRESHOLD: _RETURNED_BYTES,
            _M_TRIM_THRESHOLD: _RETURNED_BYTES,
        }
    )


def return_free_memory() -> None:
    """Have the C allocator hand back what is free on its heaps just now.

    Batches of ever other shapes leave holes between the buffers that it keeps, some of which fit
    nothing again: without this, training at batches of many lengths holds several times what a
    step needs, and more the longer it runs.
    """
    if trim := _allocator("malloc_trim"):
        trim(0)


def _tell_allocator(options: dict[int, int]) -> bool:
    mallopt = _allocator("mallopt")
    return mallopt is not None and all(mallopt(*option) for option in options.items())


def _allocator(function: str) -> Callable[..., int] | None:
    """Return a function of glibc, or None where that is not what we run on."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function_: Callable[..., int] = getattr(ctypes.CDLL(None), function)
    except (OSError, AttributeError):
        return None
    return function_

"""Memory kept between steps and batches: freed buffers and compiled kernels."""

import ctypes
import os
import sys
from collections.abc import Callable

# Options of <malloc.h>: the amount of free memory at the top of the heap above which it is returned
# to the system, the size from which a block gets its own mapping, and the maximum number of such
# blocks. (That size cannot exceed 32 MiB, and the gradient of a vocabulary is larger.)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_KEPT_BYTES, _RETURNED_BYTES = 2**31 - 1, 2**21
_MAPPINGS = 2**16  # glibc's default

_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Environment variables for the size of oneDNN's kernel cache and of torch's cache of the same
kernels."""


def keep_few_kernels(kernels: int) -> None:
    """Cache fewer compiled kernels than by default, unless the user has set a number.

    oneDNN compiles a kernel for each matrix shape, which takes about 0.7 MiB and 1 ms. By default
    torch keeps twice 1,024 of them: more than a GiB after a few hundred batches. Call this before
    the first matrix product; later it has no effect.
    """
    for name in _CACHES:
        os.environ.setdefault(name, str(kernels))


def use_huge_pages() -> None:
    """Make torch use 2 MiB pages for big tensors, unless the user has set this.

    Memory that is returned and allocated again costs a page fault per page. Call this before the
    first tensor; later it has no effect.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_big_buffers() -> bool:
    """Ask the C allocator to keep freed memory instead of returning it at every step.

    glibc gives each large block its own mapping and unmaps it when it is freed. So every step pays
    a page fault for each 4 KiB of its activations and gradients. Returns whether the allocator
    accepted the options.
    """
    return _tell_allocator({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _KEPT_BYTES})


def return_big_buffers() -> bool:
    """Ask the C allocator to return freed memory immediately, however often that happens.

    By default glibc adapts and keeps blocks of up to 32 MiB on its heaps. The holes in these heaps
    then take more memory than training with gradient checkpointing uses. Returns whether the
    allocator accepted the options.
    """
    return _tell_allocator(
        {
            _M_MMAP_MAX: _MAPPINGS,
            _M_MMAP_THRESHOLD: _RETURNED_BYTES,
            _M_TRIM_THRESHOLD: _RETURNED_BYTES,
        }
    )


def return_free_memory() -> None:
    """Make the C allocator return the memory that is free on its heaps now.

    Batches of varying shapes fragment the heap: some holes between the kept buffers never fit
    anything again. Without this, training with many batch lengths holds several times the memory of
    a step, and more the longer it runs.
    """
    if trim := _allocator("malloc_trim"):
        trim(0)


def _tell_allocator(options: dict[int, int]) -> bool:
    mallopt = _allocator("mallopt")
    return mallopt is not None and all(mallopt(*option) for option in options.items())


def _allocator(function: str) -> Callable[..., int] | None:
    """Return a function of glibc; None on a system without glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function_: Callable[..., int] = getattr(ctypes.CDLL(None), function)
    except (OSError, AttributeError):
        return None
    return function_

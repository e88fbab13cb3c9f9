"""What this machine computes on, and in which precision."""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from heedful.errors import UserError, unknown_name
from heedful.settings import Precision as PrecisionName
from heedful.settings import TrainSettings

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# <malloc.h>: how much free memory at the top of the heap is given back to the system, from which
# size a block has a mapping of its own, and how many may have one. (That size cannot be raised
# above 32 MiB, which the gradient of a vocabulary exceeds.)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_KEPT_BYTES, _RETURNED_BYTES = 2**31 - 1, 2**21
_MAPPINGS = 2**16  # as many as by itself


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """The number format of matrix products; weights and optimizer state stay fp32 in training."""

    dtype: torch.dtype
    reason: str
    """Why this one, in words for the user."""

    @property
    def mixed(self) -> bool:
        """Whether matrix products run in a narrower format than the weights."""
        return self.dtype is not torch.float32


def choose_device(name: str = "auto") -> torch.device:
    """Pick the device: a named one, or with ``auto`` the first GPU, else the CPU.

    Raises:
        UserError: the name is not a device, or this machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise unknown_name("device", name, ["auto", "cpu", "cuda", "cuda:0"]) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name!r}: this machine has no usable GPU; give --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device {name!r}: this machine has {torch.cuda.device_count()} GPU(s)")
    if device.type not in ("cpu", "cuda"):
        raise unknown_name("device", name, ["auto", "cpu", "cuda", "cuda:0"])
    return device


def bf16_products(device: torch.device) -> tuple[bool, str]:
    """Tell whether the device multiplies bf16 matrices in hardware, and how it was decided."""
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
        return native, f"{torch.cuda.get_device_name(device)}"
    # An AVX-512 machine without these instructions would emulate: peers measured 0.01 times fp32.
    if torch.cpu._is_amx_tile_supported():
        return True, "the CPU has AMX bf16 instructions"
    if torch.cpu._is_avx512_bf16_supported():
        return True, "the CPU has AVX-512 bf16 instructions"
    return False, "the CPU has no bf16 instructions and would emulate them, slower than fp32"


def choose_precision(name: PrecisionName, device: torch.device) -> Precision:
    """Pick the precision: ``auto`` takes bf16 where it is computed in hardware, else fp32.

    Raises:
        UserError: the precision is unknown, or would be emulated on this device.
    """
    if name == "fp32":
        return Precision(dtype=torch.float32, reason="asked for")
    if name == "fp16":
        if device.type != "cuda":
            raise UserError("precision fp16 needs a GPU; on a CPU give bf16, fp32 or auto")
        return Precision(dtype=torch.float16, reason="asked for")
    if name not in ("auto", "bf16"):
        raise unknown_name("precision", name, ["auto", *DTYPES])
    native, why = bf16_products(device)
    if native:
        return Precision(dtype=torch.bfloat16, reason=why)
    if name == "bf16":
        raise UserError(f"precision bf16 refused: {why}; give --precision fp32 or auto")
    return Precision(dtype=torch.float32, reason=why)


def prepare_device(settings: TrainSettings) -> torch.device:
    """Pick the device to train on, and tell the allocator whether time or memory is dearer.

    Raises:
        UserError: see `choose_device` and `choose_precision`.
    """
    device = choose_device(settings.device)
    choose_precision(settings.precision, device)  # so that one that cannot be had is refused now
    if settings.gradient_checkpointing:  # which says that memory is dearer than time
        return_big_buffers()
    else:
        keep_big_buffers()
    return device


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
        found: Callable[..., int] = getattr(ctypes.CDLL(None), function)
    except (OSError, AttributeError):
        return None
    return found

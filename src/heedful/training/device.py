"""What this machine computes on, and in which precision."""

import os
from dataclasses import dataclass
from functools import partial

import torch

from heedful.compiled import int8
from heedful.errors import UserError, unknown_name
from heedful.models.model import Model
from heedful.models.with_head import wide_layers
from heedful.settings import AnswerPrecision, PrecisionName, TrainSettings
from heedful.training.allocator import (
    keep_big_buffers,
    keep_few_kernels,
    return_big_buffers,
    use_huge_pages,
)

if hasattr(os, "register_at_fork"):  # all but Windows
    # The threads of OpenMP are not in a process that is forked: it would wait for them for ever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

_KERNELS = 64
"""Those of a step: the next one has nearly always another number of tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """The number format of matrix products; weights and optimizer state stay fp32 in training."""

    dtype: torch.dtype
    reason: str
    """Why this one, in words for the user."""
    int8: bool = False
    """Whether products with weights are of whole numbers of 8 bits; ``dtype`` is of all else."""
    tf32: bool = False
    """Whether products of float32 read 10 bits of each fraction."""

    @property
    def name(self) -> str:
        """Its name for the user."""
        if self.int8 or self.tf32:
            return "int8" if self.int8 else "tf32"
        return str(self.dtype).removeprefix("torch.")

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
            raise UserError("precision fp16 needs a GPU; on a CPU give fp32 or auto")
        return Precision(dtype=torch.float16, reason="asked for")
    if name not in ("auto", "bf16", "tf32"):
        raise unknown_name("precision", name, ["auto", *DTYPES, "tf32"])
    native, why = bf16_products(device)
    if name == "tf32":
        if device.type != "cuda" or not native:  # both came with the same generation
            lacking = f": {why}" if device.type == "cuda" else ""
            raise UserError(f"precision tf32 needs a GPU that has it{lacking}; give fp32 or auto")
        return Precision(dtype=torch.float32, reason=why, tf32=True)
    if native:
        return Precision(dtype=torch.bfloat16, reason=why)
    if name == "bf16":
        raise UserError(f"precision bf16 refused: {why}; give --precision fp32 or auto")
    return Precision(dtype=torch.float32, reason=why)


def choose_answer_precision(name: AnswerPrecision, device: torch.device) -> Precision:
    """Pick the precision of answers: as `choose_precision` does, or int8 where it is asked for.

    Raises:
        UserError: the precision is unknown, or would be emulated or wrong on this device.
    """
    if name != "int8":
        return choose_precision(name, device)
    there, why = int8.products(device)
    if not there:
        raise UserError(f"precision int8 refused: {why}; give --precision auto or fp32")
    return Precision(dtype=torch.float32, reason=why, int8=True)


def in_precision(model: Model, device: torch.device, dtype: torch.dtype) -> Model:
    """Move a model, in place, to a device and into the format that it answers in.

    Its `wide_layers` stay in float32.
    """
    kept = [(p, p.data) for m in wide_layers(model) for p in m.parameters(recurse=False)]
    model.to(device=device, dtype=dtype)
    for parameter, values in kept:
        parameter.data = values.to(device=device, dtype=torch.promote_types(dtype, torch.float32))
    return model


def prepare_products(precision: Precision) -> None:
    """Let products of float32 be TF32, if that is the precision: from now on in all this process.

    Elsewhere torch computes them in whole, unless the user's own code said otherwise.
    """
    if precision.tf32:
        torch.set_float32_matmul_precision("high")


def prepare_device(settings: TrainSettings) -> torch.device:
    """Pick the device to train on, and how it multiplies; say what is kept in memory.

    See ``allocator.py``.

    Raises:
        UserError: see `choose_device` and `choose_precision`.
    """
    keep_few_kernels(_KERNELS)
    device = choose_device(settings.device)
    # One that cannot be had is refused now.
    prepare_products(choose_precision(settings.precision, device))
    if settings.gradient_checkpointing or settings.shard:  # memory is dearer than time
        use_huge_pages()
        return_big_buffers()
    else:
        keep_big_buffers()
    return device

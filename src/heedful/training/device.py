"""Choice of the device and of the precision."""

import copy
import os
from dataclasses import dataclass
from functools import partial

import torch

from heedful.compiled import int8
from heedful.errors import UserError, unknown_name
from heedful.models.model import Model
from heedful.models.with_head import float32_layers
from heedful.settings import AnswerPrecision, PrecisionName, TrainSettings
from heedful.training.allocator import (
    keep_big_buffers,
    keep_few_kernels,
    return_big_buffers,
    use_huge_pages,
)

if hasattr(os, "register_at_fork"):  # all but Windows
    # A forked process has no OpenMP threads, so it would wait for them forever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

_KERNELS = 64
"""Number of cached kernels, enough for one step: the next one nearly always has another shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """The dtype of matrix products; weights and optimizer state stay in fp32 during training."""

    dtype: torch.dtype
    reason: str
    """Why this precision was chosen, as text for the user."""
    int8: bool = False
    """Whether products with weights use 8-bit integers; ``dtype`` holds for everything else."""
    tf32: bool = False
    """Whether float32 products use TF32, with 10 bits of mantissa."""

    @property
    def name(self) -> str:
        """Name of the precision for the user."""
        if self.int8 or self.tf32:
            return "int8" if self.int8 else "tf32"
        return str(self.dtype).removeprefix("torch.")

    @property
    def mixed(self) -> bool:
        """Whether matrix products run in lower precision than the weights."""
        return self.dtype is not torch.float32


def choose_device(name: str = "auto") -> torch.device:
    """Return the named device; with ``auto`` the first GPU, or else the CPU.

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
    """Return whether the device multiplies bf16 matrices in hardware, and the reason."""
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
        return native, f"{torch.cuda.get_device_name(device)}"
    # AVX-512 without these instructions would emulate bf16: others measured 0.01 times fp32 speed.
    if torch.cpu._is_amx_tile_supported():
        return True, "the CPU has AMX bf16 instructions"
    if torch.cpu._is_avx512_bf16_supported():
        return True, "the CPU has AVX-512 bf16 instructions"
    return False, "the CPU has no bf16 instructions and would emulate them, slower than fp32"


def choose_precision(name: PrecisionName, device: torch.device) -> Precision:
    """Return the precision; ``auto`` is bf16 if the hardware supports it, else fp32.

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
        if device.type != "cuda" or not native:  # tf32 and bf16 came with the same GPU generation
            lacking = f": {why}" if device.type == "cuda" else ""
            raise UserError(f"precision tf32 needs a GPU that has it{lacking}; give fp32 or auto")
        return Precision(dtype=torch.float32, reason=why, tf32=True)
    if native:
        return Precision(dtype=torch.bfloat16, reason=why)
    if name == "bf16":
        raise UserError(f"precision bf16 refused: {why}; give --precision fp32 or auto")
    return Precision(dtype=torch.float32, reason=why)


def choose_answer_precision(name: AnswerPrecision, device: torch.device) -> Precision:
    """Return the precision of predictions: as `choose_precision`, or int8 on request.

    Raises:
        UserError: the precision is unknown, or would be emulated or wrong on this device.
    """
    if name != "int8":
        return choose_precision(name, device)
    supported, why = int8.is_supported(device)
    if not supported:
        raise UserError(f"precision int8 refused: {why}; give --precision auto or fp32")
    return Precision(dtype=torch.float32, reason=why, int8=True)


def in_precision(model: Model, device: torch.device, dtype: torch.dtype) -> Model:
    """Move a model, in place, to a device and a dtype for predictions.

    Its `float32_layers` stay in float32.
    """
    wide_weights = [(p, p.data) for m in float32_layers(model) for p in m.parameters(recurse=False)]
    model.to(device=device, dtype=dtype)
    for parameter, values in wide_weights:
        parameter.data = values.to(device=device, dtype=torch.promote_types(dtype, torch.float32))
    return model


def inference_copy(model: Model, device: torch.device, dtype: torch.dtype) -> Model:
    """Return the model in evaluation mode; a copy if its device or dtype must change."""
    parameter = next(model.parameters())
    if parameter.dtype is not dtype or parameter.device != device:
        model = in_precision(copy.deepcopy(model), device, dtype)
    return model.eval()


def prepare_products(precision: Precision) -> None:
    """Enable TF32 for float32 products if that is the precision, for the whole process.

    Otherwise torch computes them in full float32, unless the user's own code has set this.
    """
    if precision.tf32:
        torch.set_float32_matmul_precision("high")


def prepare_device(settings: TrainSettings) -> torch.device:
    """Return the device to train on; set up matrix products and the allocator.

    For the allocator, see ``allocator.py``.

    Raises:
        UserError: see `choose_device` and `choose_precision`.
    """
    keep_few_kernels(_KERNELS)
    device = choose_device(settings.device)
    # Raises an error now if the precision is not available.
    prepare_products(choose_precision(settings.precision, device))
    if settings.gradient_checkpointing or settings.shard:  # memory is dearer than time
        use_huge_pages()
        return_big_buffers()
    else:
        keep_big_buffers()
    return device

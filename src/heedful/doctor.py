"""What this machine can do for heedful, and the versions it does it with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

import heedful
from heedful.errors import UserError
from heedful.sources import PACKAGES, resolve
from heedful.training.device import bf16_products, choose_device, choose_precision

_OPTIONAL = ("matplotlib", "tensorboard", "huggingface_hub")


def versions() -> dict[str, str]:
    """Return the versions that decide a result."""
    return {
        "heedful": heedful.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def examine() -> dict[str, object]:
    """Look at the machine: cores, number formats, GPU, versions, models that are installed."""
    cpu = torch.device("cpu")
    native, why = bf16_products(cpu)
    device = choose_device()
    return {
        **versions(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_instructions": torch.backends.cpu.get_cpu_capability(),
        "cpu_bf16": native,
        "cpu_bf16_because": why,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "device": str(device),
        "precision": str(choose_precision("auto", device).dtype).removeprefix("torch."),
        "models": {name: _model_state(name) for name in PACKAGES},
        "optional": {name: _installed(name) for name in _OPTIONAL},
    }


def _model_state(name: str) -> str:
    try:
        return f"published files, in {resolve(name)}"
    except UserError as error:
        return str(error)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

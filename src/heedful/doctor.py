"""Report this machine's capabilities for heedful, and the installed versions."""

import os
from importlib.metadata import PackageNotFoundError, version

import torch

from heedful.checkpoints.runs import versions
from heedful.compiled import int8, kernels
from heedful.errors import UserError
from heedful.extras import EXTRAS
from heedful.layers import fused, linear
from heedful.sources import PACKAGES, resolve
from heedful.training.device import bf16_products, choose_device, choose_precision


def examine() -> dict[str, object]:
    """Return the machine's cores, number formats, GPUs, versions and installed models."""
    cpu = torch.device("cpu")
    onednn, onednn_reason = linear.uses_onednn()
    bf16, bf16_reason = bf16_products(cpu)
    has_int8, int8_reason = int8.is_supported(cpu)
    device = choose_device()
    dtype = choose_precision("auto", device).dtype
    return {
        **versions(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_instructions": torch.backends.cpu.get_cpu_capability(),
        "cpu_fp32_by_onednn": onednn,
        "cpu_fp32_by_onednn_because": onednn_reason,
        "cpu_bf16": bf16,
        "cpu_bf16_because": bf16_reason,
        "cpu_int8": has_int8,
        "cpu_int8_because": int8_reason,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "gpu_kernels": [
            fused.why_no_kernels(torch.device("cuda", i)) or "there"
            for i in range(torch.cuda.device_count())
        ],
        "device": str(device),
        "precision": str(dtype).removeprefix("torch."),
        "kernel": kernels.encoder_kernel(dtype, device)[0],
        "kernel_because": kernels.encoder_kernel(dtype, device)[1],
        "models": {name: _model_state(name) for name in PACKAGES},
        "optional": _optional_packages(),
    }


def _model_state(name: str) -> str:
    try:
        return f"published files, in {resolve(name)}"
    except UserError as error:
        return str(error)


def _optional_packages() -> dict[str, str]:
    """Return the version of each optional package, or its purpose and the install command."""
    states = {}
    for name, extra in EXTRAS.items():
        for package in extra.packages:
            try:
                states[package] = version(package)
            except PackageNotFoundError:
                states[package] = (
                    f"missing: {extra.needed_by} need it: pip install 'heedful[{name}]'"
                )
    return states

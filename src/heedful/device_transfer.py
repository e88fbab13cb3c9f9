"""Copy tensors to a device without blocking the host, and keep the host copy.

A device works through queued operations while the host prepares the next ones. Reading a value
back, or finding the nonzero elements of a tensor, blocks the host until the queue is empty.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def blocks_host(device: torch.device) -> bool:
    """Return whether reading a value from the device blocks the host."""
    return device.type != "cpu"


def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a device without blocking the host.

    The result keeps a reference to the host copy: see `get_host_copy`. A tensor that is already on
    a device has no host copy.
    """
    if not blocks_host(device):
        return tensor
    if blocks_host(tensor.device):
        return tensor.to(device)
    # A copy from unpinned memory would wait for all queued operations.
    source = tensor.pin_memory() if device.type == "cuda" else tensor
    copied = source.to(device, non_blocking=True)
    copied.on_host = tensor  # type: ignore[attr-defined]
    return copied


def get_host_copy(tensor: Tensor) -> Tensor:
    """Return the host copy of a tensor that `copy_to_device` copied to a device.

    Without a host copy, return the tensor itself. If it is on a device, reading it blocks the host.
    """
    host_copy: Tensor = getattr(tensor, "on_host", tensor)
    return host_copy


def reshape_with_host_copy(tensor: Tensor, *shape: int) -> Tensor:
    """Reshape a tensor and its host copy, if it has one."""
    host_copy, result = get_host_copy(tensor), tensor.reshape(shape)
    if host_copy is not tensor:
        result.on_host = host_copy.reshape(shape)  # type: ignore[attr-defined]
    return result


def nonzero_indices(mask: Tensor, device: torch.device) -> Tensor:
    """Return the indices of the True elements of a flattened mask.

    If the mask has a host copy, the host counts them and does not wait for the device.

    Args:
        mask: bool. Any shape.
        device: device of the result.

    Returns:
        Shape (N,), int64.
    """
    return copy_to_device(get_host_copy(mask).flatten().nonzero().squeeze(1), device)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context without an autocast that a caller has switched on."""
    available = torch.amp.is_autocast_available(device.type)
    if available and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()

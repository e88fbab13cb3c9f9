"""Copy tensors to a device without blocking the host, and keep the host copy.

A device works through queued operations while the host prepares the next ones. Reading a value
back, or finding the nonzero elements of a tensor, blocks the host until the queue is empty.
"""

import torch
from torch import Tensor


def waits(device: torch.device) -> bool:
    """Return whether reading a value from the device blocks the host."""
    return device.type != "cpu"


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a device without blocking the host.

    The result keeps a reference to the host copy: see `on_host`. A tensor that is already on a
    device has no host copy.
    """
    if not waits(device):
        return tensor
    if waits(tensor.device):
        return tensor.to(device)
    # A copy from unpinned memory would wait for all queued operations.
    source = tensor.pin_memory() if device.type == "cuda" else tensor
    copied = source.to(device, non_blocking=True)
    copied.on_host = tensor  # type: ignore[attr-defined]
    return copied


def on_host(tensor: Tensor) -> Tensor:
    """Return the host copy of a tensor that `send` copied to a device.

    Without a host copy, return the tensor itself. If it is on a device, reading it blocks the host.
    """
    host_copy: Tensor = getattr(tensor, "on_host", tensor)
    return host_copy


def reshaped(tensor: Tensor, *shape: int) -> Tensor:
    """Reshape a tensor and its host copy, if it has one."""
    host_copy, result = on_host(tensor), tensor.reshape(shape)
    if host_copy is not tensor:
        result.on_host = host_copy.reshape(shape)  # type: ignore[attr-defined]
    return result


def where_true(mask: Tensor, device: torch.device) -> Tensor:
    """Return the indices of the True elements of a flattened mask.

    If the mask has a host copy, the host counts them and does not wait for the device.

    Args:
        mask: bool. Any shape.
        device: device of the result.

    Returns:
        Shape (N,), int64.
    """
    return send(on_host(mask).flatten().nonzero().squeeze(1), device)

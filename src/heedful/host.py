"""The host's memory and that of a device: what is sent, and what the host knows of it.

A device works off what the host asks for while the host prepares what is next. To read a number
back, or to find out which of its numbers are not zero, the host has to wait for all of it.
"""

import torch
from torch import Tensor


def waits(device: torch.device) -> bool:
    """Tell whether reading a number of a device makes the host wait."""
    return device.type != "cpu"


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host's on a device, to which it is copied while the host goes on.

    What comes back is still known to the host: see `on_host`. Of one that is on a device already
    the host knows nothing.
    """
    if not waits(device):
        return tensor
    if waits(tensor.device):
        return tensor.to(device)
    # From memory that is not pinned the copy would wait for all that was asked for before.
    source = tensor.pin_memory() if device.type == "cuda" else tensor
    sent = source.to(device, non_blocking=True)
    sent.on_host = tensor  # type: ignore[attr-defined]
    return sent


def on_host(tensor: Tensor) -> Tensor:
    """Return the same tensor in the host's memory, where it was sent from there.

    Otherwise return the tensor itself: to look at it makes the host wait, if it is on a device.
    """
    known: Tensor = getattr(tensor, "on_host", tensor)
    return known


def reshaped(tensor: Tensor, *shape: int) -> Tensor:
    """Return a tensor in another shape; the host knows it as it knew the tensor."""
    known, other = on_host(tensor), tensor.reshape(shape)
    if known is not tensor:
        other.on_host = known.reshape(shape)  # type: ignore[attr-defined]
    return other


def where_true(mask: Tensor, device: torch.device) -> Tensor:
    """Return where a mask is True, laid out as one row; the host counts them, if it knows the mask.

    Args:
        mask: bool. Any shape.
        device: where the answer is needed.

    Returns:
        Shape (N,), int64.
    """
    return send(on_host(mask).flatten().nonzero().squeeze(1), device)

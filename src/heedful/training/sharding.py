"""A model divided among the processes that train it, by torch's FSDP2 (``fully_shard``).

Each process keeps an equal share of every weight, of its gradient and of the optimizer's state. The
weights of a block are put together just before it is computed, and its gradients are summed and
divided again right after, so a process never holds more than a block or two of the whole.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import checkpoint

from heedful.layers.block import Block
from heedful.models.model import Model
from heedful.training.device import Precision


def divide(model: Model, device: torch.device, precision: Precision) -> Model:
    """Divide a model that is whole and the same in all processes, in place.

    Args:
        model: on the CPU, or on the device; each process moves its share alone.
        device: where it is trained.
        precision: the format of its matrix products. The shares stay as wide as they are.

    Returns:
        The same model without weights, for which `whole` puts them together.
    """
    empty = _without_weights(model, device)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(
        param_dtype=precision.dtype if precision.mixed else None, reduce_dtype=torch.float32
    )
    if not precision.mixed:
        policy = MixedPrecisionPolicy()
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if model.gradient_checkpointing:
        # Inside of what puts the weights together, which then is done again for the backward pass.
        model.gradient_checkpointing = False
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
    # Nothing is changed in place of what a model returns: see the losses of tasks.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
    for module in (*blocks, model):
        part = fully_shard(module, mesh=mesh, mp_policy=policy)
        # Ours are sums already divided by what they are means of.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    model.register_load_state_dict_pre_hook(_share_all)  # type: ignore[no-untyped-call]
    return empty


def is_divided(model: nn.Module) -> bool:
    """Tell whether `divide` has divided a model."""
    return isinstance(model, FSDPModule)


@contextmanager
def whole(model: nn.Module, empty: nn.Module) -> Iterator[None]:
    """Put the weights of a divided model together, in all processes at once.

    Args:
        model: it stays as it is.
        empty: what `divide` returned for it: it has the weights meanwhile.
    """
    shells = dict(empty.named_parameters())
    kept = {name: shell.data for name, shell in shells.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shells[name].data = joined(parameter.detach())
    try:
        yield
    finally:
        for name, shell in shells.items():
            shell.data = kept[name]


def joined(tensor: Tensor) -> Tensor:
    """Return a tensor whole that may be divided; all processes must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def share(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this process's share of a whole tensor, where another one is divided."""
    if isinstance(tensor, DTensor) or not isinstance(like, DTensor):
        return tensor
    whole = tensor.to(device=like.device, dtype=like.dtype)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _share_all(module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
    """Let a divided model be given whole weights."""
    weights = module.state_dict()
    for name, tensor in state.items():
        if name in weights:
            state[name] = share(tensor, weights[name])


def _without_weights(model: Model, device: torch.device) -> Model:
    """Return a copy whose parameters have their shapes, and take no memory."""
    shells = {
        id(parameter): nn.Parameter(
            torch.zeros((), dtype=parameter.dtype, device=device).expand(parameter.shape),
            requires_grad=parameter.requires_grad,
        )
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, shells).to(device)

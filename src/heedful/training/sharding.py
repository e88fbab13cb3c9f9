"""Sharding of a model over the ranks that train it, with torch's FSDP2 (``fully_shard``).

Each rank keeps an equal shard of every weight, its gradient and its optimizer state. The weights of
a block are gathered just before it is computed, and its gradients are reduced and scattered right
after. So a rank never holds more than one or two whole blocks.
"""

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import checkpoint

from heedful.layers.block import Block
from heedful.layers.multihead import MultiHead
from heedful.models.model import Model
from heedful.models.with_head import float32_layers
from heedful.training.device import Precision


class Plan(NamedTuple):
    """How the ranks share a model."""

    shard: bool
    """Whether to shard the model; otherwise each rank has a replica, with all-reduced gradients."""
    precision: Precision
    """Precision of matrix products. Weights and gradient sums keep their own dtype."""


def divide(model: Model, device: torch.device, plan: Plan) -> Model:
    """Shard a model in place. The model must be whole and equal on all ranks.

    Args:
        model: the model, on the CPU or on the device. Each rank moves only its own shard.
        device: the device to train on.
        plan: how to share the model.

    Returns:
        A copy of the model without weights, which `whole` fills.
    """
    empty = _without_weights(model, device)
    processes = dist.get_world_size()
    mesh = init_device_mesh(
        device.type,
        (1, processes) if plan.shard else (processes, 1),
        mesh_dim_names=("replicate", "shard"),
    )
    mesh = mesh["shard"] if plan.shard else mesh
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    tables: list[nn.Module] = []
    outputs: list[nn.Module] = []
    full_precision = low_precision = MixedPrecisionPolicy()
    if plan.precision.mixed:
        # Embedding rows are looked up, and their gradients reduced, in their own dtype.
        in_blocks = {part for block in blocks for part in block.modules()}
        tables = [
            part
            for part in model.modules()
            if isinstance(part, nn.Embedding) and part not in in_blocks
        ]
        outputs = float32_layers(model)
        for attention in in_blocks:
            if isinstance(attention, MultiHead):
                attention.compute_dtype = plan.precision.dtype
        low_precision = MixedPrecisionPolicy(
            param_dtype=plan.precision.dtype, reduce_dtype=torch.float32
        )
    if model.gradient_checkpointing:
        # Checkpoint inside the FSDP wrapper, which gathers the weights again for the backward pass.
        model.gradient_checkpointing = False
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
    # The warning is about in-place changes of model outputs. The losses of tasks make none.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
    for module in (*tables, *outputs, *blocks, model):  # inner modules first
        policy = full_precision if module in tables or module in outputs else low_precision
        # Only blocks reshard after the forward pass: another module may use tied weights later.
        part = fully_shard(
            module, mesh=mesh, mp_policy=policy, reshard_after_forward=module in blocks
        )
        # Sum the gradients: the losses are already divided by the count over all ranks.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    # Some tables are used without a call of their forward method, so gather them explicitly.
    model.register_forward_pre_hook(lambda *_: _unshard(tables))
    model.register_load_state_dict_pre_hook(_shard_state_dict)  # type: ignore[no-untyped-call]
    return empty


def _unshard(tables: Sequence[nn.Module]) -> None:
    for table in tables:
        assert isinstance(table, FSDPModule)
        table.unshard()


def exchange(model: nn.Module, plan: Plan, last: bool) -> None:
    """Set whether the next backward pass reduces the gradients: the last of a step always does.

    A sharded model reduces them in each pass, because whole gradients would take too much memory.
    """
    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(last or plan.shard)


@contextmanager
def whole(model: nn.Module, empty: nn.Module, wanted: bool) -> Iterator[None]:
    """Gather the weights of a sharded model. This is a collective operation.

    Args:
        model: the sharded model, which does not change.
        empty: the copy that `divide` returned. It has the weights inside the context.
        wanted: whether this rank needs the weights.
    """
    shells = dict(empty.named_parameters())
    empty_data = {name: shell.data for name, shell in shells.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weight = joined(parameter.detach())
            if wanted:
                shells[name].data = weight
    try:
        yield
    finally:
        for name, shell in shells.items():
            shell.data = empty_data[name]


def joined(tensor: Tensor) -> Tensor:
    """Return the whole tensor of a possibly sharded one. This is a collective operation."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.full_tensor() if is_sharded(tensor) else tensor.to_local()


def is_sharded(tensor: Tensor) -> bool:
    """Return whether this rank has only a shard of the tensor."""
    return isinstance(tensor, DTensor) and tensor.device_mesh.size(-1) > 1


def share(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this rank's shard of a whole tensor, sharded like another one."""
    if isinstance(tensor, DTensor) or not isinstance(like, DTensor):
        return tensor
    whole = tensor.to(device=like.device, dtype=like.dtype)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _shard_state_dict(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object
) -> None:
    """Shard whole weights before they are loaded into a sharded model."""
    weights = module.state_dict()
    for name, tensor in state.items():
        if name in weights:
            state[name] = share(tensor, weights[name])


def _without_weights(model: Model, device: torch.device) -> Model:
    """Return a copy of the model whose parameters have the same shapes but take no memory."""
    shells = {
        id(parameter): nn.Parameter(
            torch.zeros((), dtype=parameter.dtype, device=device).expand(parameter.shape),
            requires_grad=parameter.requires_grad,
        )
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, shells).to(device)

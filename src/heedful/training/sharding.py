"""A model divided among the processes that train it, by torch's FSDP2 (``fully_shard``).

Each process keeps an equal share of every weight, of its gradient and of the optimizer's state. The
weights of a block are put together just before it is computed, and its gradients are summed and
divided again right after, so a process never holds more than a block or two of the whole.
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
from heedful.models.with_head import wide_layers
from heedful.training.device import Precision


class Plan(NamedTuple):
    """How the processes share a model."""

    shard: bool
    """Whether each has a part of it; else each has all, and its gradients are added up."""
    precision: Precision
    """The format of matrix products. Weights, and sums of gradients, stay as wide as they are."""


def divide(model: Model, device: torch.device, plan: Plan) -> Model:
    """Divide a model that is whole and the same in all processes, in place.

    Args:
        model: on the CPU, or on the device; each process moves its share alone.
        device: where it is trained.
        plan: how it is shared.

    Returns:
        The same model without weights, for which `whole` puts them together.
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
    wide = narrow = MixedPrecisionPolicy()
    if plan.precision.mixed:
        # The rows of a table are looked up as they are, and their gradients added up so.
        inner = {part for block in blocks for part in block.modules()}
        tables = [
            part for part in model.modules() if isinstance(part, nn.Embedding) and part not in inner
        ]
        outputs = wide_layers(model)
        for attention in inner:
            if isinstance(attention, MultiHead):
                attention.computes_in = plan.precision.dtype
        narrow = MixedPrecisionPolicy(param_dtype=plan.precision.dtype, reduce_dtype=torch.float32)
    if model.gradient_checkpointing:
        # Inside of what puts the weights together, which then is done again for the backward pass.
        model.gradient_checkpointing = False
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
    # Nothing is changed in place of what a model returns: see the losses of tasks.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
    for module in (*tables, *outputs, *blocks, model):  # what is within comes first
        policy = wide if module in tables or module in outputs else narrow
        # Tied weights are read by another part, later.
        part = fully_shard(
            module, mesh=mesh, mp_policy=policy, reshard_after_forward=module in blocks
        )
        # Ours are sums already divided by what they are means of.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    # Some tables are read without being called.
    model.register_forward_pre_hook(lambda *_: _join(tables))
    model.register_load_state_dict_pre_hook(_share_all)  # type: ignore[no-untyped-call]
    return empty


def _join(tables: Sequence[nn.Module]) -> None:
    for table in tables:
        assert isinstance(table, FSDPModule)
        table.unshard()


def exchange(model: nn.Module, plan: Plan, last: bool) -> None:
    """Say whether the next backward pass, the last of a step or not, adds up the gradients.

    Those of a model in parts are too large to be kept whole until the last one.
    """
    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(last or plan.shard)


@contextmanager
def whole(model: nn.Module, empty: nn.Module, wanted: bool) -> Iterator[None]:
    """Put the weights of a divided model together, in all processes at once.

    Args:
        model: it stays as it is.
        empty: what `divide` returned for it: it has the weights meanwhile.
        wanted: whether in this process, too.
    """
    shells = dict(empty.named_parameters())
    kept = {name: shell.data for name, shell in shells.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weight = joined(parameter.detach())
            if wanted:
                shells[name].data = weight
    try:
        yield
    finally:
        for name, shell in shells.items():
            shell.data = kept[name]


def joined(tensor: Tensor) -> Tensor:
    """Return a tensor whole that may be divided; all processes must ask for it."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.full_tensor() if is_sharded(tensor) else tensor.to_local()


def is_sharded(tensor: Tensor) -> bool:
    """Tell whether this process has a part of a tensor alone."""
    return isinstance(tensor, DTensor) and tensor.device_mesh.size(-1) > 1


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

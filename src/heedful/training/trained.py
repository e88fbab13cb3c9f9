"""What is trained of a model: all of it in each process, or what torch divides among them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch

from heedful.errors import UserError
from heedful.models.model import Model
from heedful.settings import TrainSettings
from heedful.task import Start
from heedful.training import ranks
from heedful.training.device import choose_precision

_OVERLAPPED = ("cuda",)
"""Devices that go on computing while gradients are exchanged: there torch does so block by block.
On a CPU that would only share out the same cores, and gradients are added up all at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """The model that is trained, and how the one that is evaluated and saved gets its weights."""

    model: Model
    exchange: Callable[[bool], None] | None
    """See ``loop.Work``."""
    whole: Callable[[bool], AbstractContextManager[None]]
    """See ``fit.Run``."""


def in_parts(training: TrainSettings) -> bool:
    """Tell whether each process holds a part of the model alone."""
    return training.shard and ranks.size() > 1


def trained(
    start: Start, training: TrainSettings, device: torch.device, *, in_passes: bool
) -> tuple[Trained, Start]:
    """Return what is trained, and the start with what is evaluated and saved: mostly the same.

    Args:
        start: its model is the same in all processes.
        training: how to train.
        device: where.
        in_passes: whether a process calls the model as often as its own texts need. Then torch,
            which waits for all processes at each block, would wait forever.

    Raises:
        UserError: the model was to be divided, and cannot be.
    """
    if in_parts(training) and in_passes:
        raise UserError(
            "--shard: with --objective plm the processes read different numbers of segments, so "
            "none can wait for the others' parts; leave out --shard"
        )
    model = start.model
    if model.can_recompute:
        model.gradient_checkpointing = training.gradient_checkpointing
    if ranks.size() == 1 or in_passes or not (training.shard or device.type in _OVERLAPPED):
        return Trained(model=model, exchange=None, whole=lambda wanted: nullcontext()), start
    from heedful.training import sharding  # whose parts of torch are slow to import

    precision = choose_precision(training.precision, device)
    plan = sharding.Plan(shard=training.shard, precision=precision)
    empty = sharding.divide(model, device, plan)
    divided = Trained(
        model=model,
        exchange=partial(sharding.exchange, model, plan),
        whole=partial(sharding.whole, model, empty),
    )
    return divided, replace(start, model=empty)

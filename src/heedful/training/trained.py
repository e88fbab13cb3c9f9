"""The trained form of a model: whole on each rank, or wrapped by torch's distributed training."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature

import torch

from heedful.errors import UserError
from heedful.models.model import Model
from heedful.settings import TrainSettings
from heedful.task import Recipe, Start
from heedful.training import ranks
from heedful.training.device import choose_precision

_OVERLAPPED = ("cuda",)
"""Devices that compute while gradients are exchanged. On them torch reduces gradients block by
block. On a CPU both would share the same cores, so all gradients are reduced in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """The model to train, and how the model to evaluate and save gets its weights."""

    model: Model
    exchange: Callable[[bool], None] | None
    """See ``loop.TrainingSetup``."""
    whole: Callable[[bool], AbstractContextManager[None]]
    """See ``fit.Run``."""


def in_parts(training: TrainSettings) -> bool:
    """Return whether the model is sharded over the ranks."""
    return training.shard and ranks.size() > 1


def trained(start: Start, recipe: Recipe, device: torch.device) -> tuple[Trained, Start]:
    """Return the model to train, and a start with the model to evaluate and save.

    They are the same model unless torch shards or replicates it.

    Args:
        start: the start. Its model is the same on all ranks.
        recipe: the training settings and the task's options.
        device: the device to train on.

    Raises:
        UserError: sharding was requested but is not possible.
    """
    training, in_passes = recipe.training, _in_passes(recipe)
    if in_parts(training) and in_passes:
        raise UserError(
            "--shard: with --objective plm the processes read different numbers of segments, so "
            "none can wait for the others' parts; leave out --shard"
        )
    if in_parts(training) and not _can_save_parts():
        raise UserError(
            f"--shard: torch {torch.__version__} cannot save the parts of a model as safetensors; "
            "update torch, or leave out --shard"
        )
    model = start.model
    if model.supports_checkpointing:
        model.gradient_checkpointing = training.gradient_checkpointing
    if ranks.size() == 1 or in_passes or not (training.shard or device.type in _OVERLAPPED):
        return Trained(model=model, exchange=None, whole=lambda wanted: nullcontext()), start
    from heedful.training import sharding  # imports slow parts of torch

    precision = choose_precision(training.precision, device)
    plan = sharding.Plan(shard=training.shard, precision=precision)
    empty = sharding.divide(model, device, plan)
    divided = Trained(
        model=model,
        exchange=partial(sharding.exchange, model, plan),
        whole=partial(sharding.whole, model, empty),
    )
    return divided, replace(start, model=empty)


def _in_passes(recipe: Recipe) -> bool:
    """Return whether the ranks may call the model different numbers of times in a step.

    Torch waits for all ranks at each block, so it would then wait forever.
    """
    return getattr(recipe.options, "objective", None) == "plm"


def _can_save_parts() -> bool:
    """Return whether torch has what `checkpoints.shards` needs, which older versions lack."""
    try:
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    except ImportError:
        return False
    return "save_distributed" in signature(HuggingFaceStorageWriter).parameters

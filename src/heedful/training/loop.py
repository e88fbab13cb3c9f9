"""The one training loop: a generator of optimizer steps.

Logging, evaluation and saving are plain lines in whoever iterates over it.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful.batches import Batch, Positions, Step
from heedful.errors import UserError
from heedful.training import ranks
from heedful.training.device import Precision
from heedful.training.gradients import NarrowWeights, TableGradients, gradient_values


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What the loop runs: a model, its data and its loss."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan: Callable[[int], Sequence[Step]]
    """Epoch to its plan; the same epoch gives the same plan."""
    fetch: Callable[[Positions, int], Batch]
    """Rows and the epoch to this process's part of their batch, on the model's device."""
    loss: Callable[[Callable[..., Any], Batch], Tensor]
    """Sum of the batch's losses; of several losses, whose means are added, one sum each."""
    count: Callable[[Batch], float | Tensor]
    """What that sum is divided by, or each of them, before anything is computed."""
    factor: Callable[[int], float]
    """Schedule: optimizer steps done to a share of the learning rate."""
    divided: bool = False
    """Whether the processes divide the model, which then adds up its gradients by itself."""


@dataclass(slots=True)
class Position:
    """Where a run stands; at each step's end it says what comes next."""

    step: int = 0
    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What one optimizer step did."""

    step: int
    epoch: int
    loss: float
    """Mean loss of its items."""
    learning_rate: float
    gradient_norm: float
    """L2 norm of the gradient before clipping."""
    items: int
    tokens: int
    """Tokens of text, padding not counted."""
    padded_tokens: int
    seconds: float


def train(
    work: Work,
    position: Position,
    *,
    total_steps: int,
    precision: Precision,
    scaler: torch.amp.GradScaler | None = None,
    clip: float = 1.0,
) -> Iterator[Done]:
    """Train from a position to the last step, giving each step as it is done.

    A step's loss is divided once by the count of all its micro-batches, so accumulation gives the
    gradient of the whole batch, for a short last batch too. The weights are changed only by a
    gradient that is finite.

    Args:
        work: the model, its data and its loss.
        position: where to start; moved on as steps are done.
        total_steps: optimizer step to end with.
        precision: format of matrix products.
        scaler: loss scaling, for fp16 alone.
        clip: largest gradient norm; 0 does not clip.

    Raises:
        UserError: a loss or a gradient is not finite; the weights are still those before the step.
    """
    # As torch's schedulers do, so that a second call does not scale a scaled rate.
    base_rates = [
        group.setdefault("initial_lr", group["lr"]) for group in work.optimizer.param_groups
    ]
    tables = TableGradients(work.model)
    narrow = None
    if precision.mixed and not work.divided:  # else what puts the weights together narrows them
        narrow = NarrowWeights(work.model, precision.dtype)
    plan = work.plan(position.epoch)
    while position.step < total_steps:
        if position.index == len(plan):
            position.epoch, position.index = position.epoch + 1, 0
            plan = work.plan(position.epoch)
        started = time.perf_counter()
        factor = work.factor(position.step)
        for group, rate in zip(work.optimizer.param_groups, base_rates, strict=True):
            group["lr"] = rate * factor
        micro_batches = plan[position.index]
        batches = [work.fetch(rows, position.epoch) for rows in micro_batches]
        with tables.sparse() if ranks.size() == 1 else nullcontext():
            loss = _accumulate(work, batches, narrow, scaler)
        if not work.divided:
            ranks.add_gradients(work.model)
        norm = _update(work, tables, scaler, clip) if math.isfinite(loss) else math.nan
        # A scaled fp16 gradient may overflow: the scaler skips that step and lowers its scale.
        if not math.isfinite(loss) or (scaler is None and not math.isfinite(norm)):
            what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {norm}"
            raise UserError(
                f"training stopped at step {position.step + 1} (epoch {position.epoch + 1}, "
                f"step {position.index + 1} of {len(plan)}): the {what}; "
                "try a lower --learning-rate or --precision fp32"
            )
        tokens, padded_tokens = _tokens(batches)
        done = Done(
            step=position.step + 1,
            epoch=position.epoch,
            loss=loss,
            learning_rate=base_rates[0] * factor,
            gradient_norm=norm,
            items=sum(len(rows) for rows in micro_batches),
            tokens=tokens,
            padded_tokens=padded_tokens,
            seconds=time.perf_counter() - started,
        )
        position.step, position.index = position.step + 1, position.index + 1
        yield done


def _accumulate(
    work: Work,
    batches: Sequence[Batch],
    narrow: NarrowWeights | None,
    scaler: torch.amp.GradScaler | None,
) -> float:
    """Add up the gradient of the mean loss over all micro-batches; return that mean."""
    work.model.train()
    work.optimizer.zero_grad(set_to_none=True)
    if narrow:
        narrow.renew()
    # A step may hold nothing to learn, such as the inside of one very long word: its sum is 0.
    counts = sum(work.count(batch) / batch.copies for batch in batches)
    count = ranks.total(torch.as_tensor(counts, dtype=torch.float64)).clamp(min=1e-30)
    total = 0.0
    for batch in batches:
        losses = work.loss(narrow.forward if narrow else work.model, batch)
        share = (losses / count).sum() / batch.copies
        total += share.item()
        if not math.isfinite(total) and not work.divided:  # no process computes without the others
            break
        torch.autograd.backward(scaler.scale(share) if scaler else share)
        if narrow:
            narrow.collect()
    return ranks.total(torch.tensor(total, dtype=torch.float64)).item()


def _tokens(batches: Sequence[Batch]) -> tuple[int, int]:
    """Return the tokens of a step's batches, without padding and with it."""
    tokens = sum(batch.num_tokens / batch.copies for batch in batches)
    positions = sum(batch.num_positions / batch.copies for batch in batches)
    both = ranks.total(torch.tensor([tokens, positions], dtype=torch.float64)).round().tolist()
    return int(both[0]), int(both[1])


def _update(
    work: Work, tables: TableGradients, scaler: torch.amp.GradScaler | None, clip: float
) -> float:
    """Clip the gradient and take the step; return the norm before clipping."""
    if scaler:
        scaler.unscale_(work.optimizer)
    gradients = gradient_values(work.model)
    norm = _total_norm(gradients)
    if scaler is None and not math.isfinite(norm):
        return norm
    if clip and norm > clip:
        torch._foreach_mul_(gradients, clip / (norm + 1e-6))
    with tables.dense():
        if scaler:
            scaler.step(work.optimizer)
            scaler.update()
        else:
            work.optimizer.step()
    return norm


def _total_norm(gradients: Sequence[Tensor]) -> float:
    """Return the L2 norm of all gradients, of their parts in other processes, too."""
    norm = nn.utils.get_total_norm(gradients)
    return (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()

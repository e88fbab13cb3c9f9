"""The one training loop: a generator of optimizer steps.

Logging, evaluation and saving are plain lines in whoever iterates over it.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from heedful.batches import Batch, Positions, Step
from heedful.errors import UserError
from heedful.host import send, waits
from heedful.task import Say
from heedful.training import random_state, ranks
from heedful.training.device import Precision
from heedful.training.gradients import NarrowWeights, TableGradients, gradient_values
from heedful.training.memory import Portions
from heedful.training.optimize import step_unless


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What the loop runs: a model, its data and its loss."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan: Callable[[int], Sequence[Step]]
    """Epoch to its plan; the same epoch gives the same plan."""
    fetch: Callable[[Positions, int], Batch]
    """Rows and the epoch to this process's part of their batch, in the host's memory."""
    loss: Callable[[Callable[..., Any], Batch], Tensor]
    """Sum of the batch's losses; of several losses, whose means are added, one sum each."""
    count: Callable[[Batch], float | Tensor]
    """What that sum is divided by, or each of them, of a batch in the host's memory."""
    factor: Callable[[int], float]
    """Schedule: optimizer steps done to a share of the learning rate."""
    epoch_of: Callable[[int], int] = int
    """The number of a plan to its epoch: a stream has several plans in one."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where the model is."""
    splits: bool = True
    """Whether the items of a micro-batch may be computed apart."""
    exchange: Callable[[bool], None] | None = None
    """Says before a backward pass whether it is the last of its step, where gradients are added up
    over the processes while it is computed."""


@dataclass(slots=True)
class Position:
    """Where a run stands; at each step's end it says what comes next."""

    step: int = 0
    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Taken:
    """An optimizer step that was asked for; a device may not have computed it yet."""

    position: Position
    """Of the step, not of the next."""
    epoch: int
    steps_of_epoch: int
    numbers: Tensor
    """Its loss and the norm of its gradient, on the device. Shape (2,), float64."""
    may_overflow: bool
    """Whether a norm that is not finite is no reason to stop."""
    learning_rate: float
    items: int
    tokens: int
    padded_tokens: int
    started: float
    """The clock when it began."""


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
    say: Say = lambda line: None,
) -> Iterator[Taken]:
    """Train from a position to the last step, giving each step as it is asked for.

    A step's loss is divided once by the count of all its micro-batches, so accumulation gives the
    gradient of the whole batch, for a short last batch too. The weights are changed only by a
    gradient that is finite. After a loss or a gradient that is not they stay as they are: `read`
    the steps to be told.

    No number comes back from the device, so that it computes while the host prepares what is next.

    Args:
        work: the model, its data and its loss.
        position: where to start; moved on as steps are done.
        total_steps: optimizer step to end with.
        precision: format of matrix products.
        scaler: loss scaling, for fp16 alone.
        clip: largest gradient norm; 0 does not clip.
        say: takes each line meant for the user.

    Raises:
        UserError: a step does not fit into memory, in however small portions.
    """
    # As torch's schedulers do, so that a second call does not scale a scaled rate.
    base_rates = [
        group.setdefault("initial_lr", group["lr"]) for group in work.optimizer.param_groups
    ]
    parameters = list(work.model.parameters())
    tables = TableGradients(work.model)
    narrow = None
    if precision.mixed and work.exchange is None:  # else what exchanges them narrows the weights
        narrow = NarrowWeights(work.model, precision.dtype)
    # Sparse gradients have as many rows as there are different tokens, which only the device knows.
    sparse = ranks.size() == 1 and not waits(work.device)
    stopped = torch.zeros((), dtype=torch.bool, device=work.device)
    portions = Portions(work.fetch, splits=work.splits, say=say)
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
        with tables.sparse() if sparse else nullcontext():
            batches, loss = _fitting(work, portions, position, micro_batches, narrow, scaler)
        if work.exchange is None:
            ranks.add_gradients(work.model)
        stopped = stopped | ~loss.isfinite()
        norm, stopped = _update(work, parameters, tables, scaler, clip, stopped)
        tokens, padded_tokens = _tokens(batches)
        taken = Taken(
            position=replace(position),
            epoch=work.epoch_of(position.epoch),
            steps_of_epoch=len(plan),
            numbers=torch.stack([loss, norm.double()]),
            may_overflow=scaler is not None,
            learning_rate=base_rates[0] * factor,
            items=sum(len(rows) for rows in micro_batches),
            tokens=tokens,
            padded_tokens=padded_tokens,
            started=started,
        )
        position.step, position.index = position.step + 1, position.index + 1
        yield taken


def read(taken: Sequence[Taken]) -> Iterator[Done]:
    """Wait for some steps, all at once, and say what they did.

    Raises:
        UserError: a loss or a gradient is not finite; the weights are still those before that step.
    """
    rows = torch.stack([step.numbers for step in taken]).tolist()
    seconds = (time.perf_counter() - taken[0].started) / len(taken)
    for step, (loss, norm) in zip(taken, rows, strict=True):
        # A scaled fp16 gradient may overflow: the scaler skips that step and lowers its scale.
        if not math.isfinite(loss) or not (step.may_overflow or math.isfinite(norm)):
            what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {norm}"
            at = step.position
            raise UserError(
                f"training stopped at step {at.step + 1} (epoch {step.epoch + 1}, "
                f"step {at.index + 1} of {step.steps_of_epoch}): the {what}; "
                "try a lower --learning-rate or --precision fp32"
            )
        yield Done(
            step=step.position.step + 1,
            epoch=step.epoch,
            loss=loss,
            learning_rate=step.learning_rate,
            gradient_norm=norm,
            items=step.items,
            tokens=step.tokens,
            padded_tokens=step.padded_tokens,
            seconds=seconds,
        )


def _fitting(
    work: Work,
    portions: Portions,
    position: Position,
    micro_batches: Step,
    narrow: NarrowWeights | None,
    scaler: torch.amp.GradScaler | None,
) -> tuple[list[Batch], Tensor]:
    """Add up the gradient of a step, in smaller portions if memory runs out.

    Returns:
        The batches, and the mean loss.
    """
    random = random_state.of_device(work.device)
    while True:
        batches = portions.batches(micro_batches, position.epoch)
        try:
            return batches, _accumulate(work, batches, narrow, scaler)
        except torch.OutOfMemoryError:
            pass  # whose traceback holds what was computed so far
        del batches
        portions.halve(position.step + 1)
        work.optimizer.zero_grad(set_to_none=True)
        if work.device.type == "cuda":
            torch.cuda.empty_cache()
        random_state.restore(random, work.device)


def _accumulate(
    work: Work,
    batches: Sequence[Batch],
    narrow: NarrowWeights | None,
    scaler: torch.amp.GradScaler | None,
) -> Tensor:
    """Add up the gradient of the mean loss over all micro-batches; return that mean."""
    work.model.train()  # each step: a part of it may have been loaded, or looked at, for answers
    work.optimizer.zero_grad(set_to_none=True)
    if narrow:
        narrow.renew()
    # A step may hold nothing to learn, such as the inside of one very long word: its sum is 0.
    counts = sum(work.count(batch) / batch.copies for batch in batches)
    count = ranks.total(torch.as_tensor(counts, dtype=torch.float64)).clamp(min=1e-30)
    count = send(count, work.device)
    total = torch.zeros((), dtype=torch.float64, device=work.device)
    for number, batch in enumerate(batches, start=1):
        if work.exchange:
            work.exchange(number == len(batches))
        losses = work.loss(narrow.forward if narrow else work.model, batch.to(work.device))
        share = (losses / count).sum() / batch.copies
        total += share.detach()
        torch.autograd.backward(scaler.scale(share) if scaler else share)
        if narrow:
            narrow.collect()
    return ranks.total(total)


def _tokens(batches: Sequence[Batch]) -> tuple[int, int]:
    """Return the tokens of a step's batches, without padding and with it."""
    tokens = sum(batch.num_tokens / batch.copies for batch in batches)
    positions = sum(batch.num_positions / batch.copies for batch in batches)
    both = ranks.total(torch.tensor([tokens, positions], dtype=torch.float64)).round().tolist()
    return int(both[0]), int(both[1])


def _update(
    work: Work,
    parameters: Sequence[nn.Parameter],
    tables: TableGradients,
    scaler: torch.amp.GradScaler | None,
    clip: float,
    stopped: Tensor,
) -> tuple[Tensor, Tensor]:
    """Clip the gradient and take the step, unless the run stopped.

    Returns:
        The norm before clipping, and whether the run stopped by now.
    """
    gradients = gradient_values(parameters)
    if scaler:
        # Its own way to skip a step is a gradient that is not finite.
        ranks.local(gradients[0]).mul_(torch.where(stopped, math.nan, 1.0))
        scaler.unscale_(work.optimizer)
    norm = _total_norm(gradients)
    if scaler is None:
        stopped = stopped | ~norm.isfinite()
    if clip:
        _clip(gradients, norm, clip)
    with tables.dense():
        if scaler:
            scaler.step(work.optimizer)
            scaler.update()
        else:
            step_unless(stopped, work.optimizer)
    return norm, stopped


def _clip(gradients: list[Tensor], norm: Tensor, most: float) -> None:
    """Scale gradients down to a norm."""
    norm = norm.double()
    if not waits(norm.device) and not norm > most:
        return  # without a pass over all of them
    parts = [ranks.local(gradient) for gradient in gradients]
    factor = torch.where(norm > most, most / (norm + 1e-6), 1.0)
    torch._foreach_mul_(parts, factor.to(parts[0].dtype))


def _total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the L2 norm of all gradients, of their parts in other processes, too."""
    norm = nn.utils.get_total_norm(gradients)
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return whole

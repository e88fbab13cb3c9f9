"""The training loop: a generator of optimizer steps.

The caller iterates over the steps and does the logging, evaluation and saving.
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
    """Everything the loop needs: the model, the optimizer, the data and the loss."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan: Callable[[int], Sequence[Step]]
    """Return the plan (all steps) of an epoch. Deterministic in the epoch."""
    fetch: Callable[[Positions, int], Batch]
    """Return this rank's share of a batch, in host memory, from item positions and an epoch."""
    loss: Callable[[Callable[..., Any], Batch], Tensor]
    """Return the summed loss of a batch.

    An objective with several losses, whose means are added, returns one sum per loss."""
    count: Callable[[Batch], float | Tensor]
    """Return the divisor of that sum (one per loss) for a batch in host memory."""
    factor: Callable[[int], float]
    """Learning-rate schedule: return the learning-rate factor after a number of steps."""
    epoch_of: Callable[[int], int] = int
    """Return the epoch of a plan number. A stream has several plans per epoch."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of the model."""
    splits: bool = True
    """Whether a micro-batch may be split further."""
    exchange: Callable[[bool], None] | None = None
    """Called before each backward pass with whether it is the last of its step.

    Set where gradients are all-reduced during the backward pass."""


@dataclass(slots=True)
class Position:
    """Progress of a run. After each step, it points to the next one."""

    step: int = 0
    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Taken:
    """An optimizer step that has been launched but may not have finished on the device."""

    position: Position
    """Position of this step, not of the next one."""
    epoch: int
    steps_of_epoch: int
    numbers: Tensor
    """Loss and gradient norm, on the device. Shape (2,), float64."""
    may_overflow: bool
    """Whether a non-finite gradient norm is tolerated."""
    learning_rate: float
    items: int
    tokens: int
    padded_tokens: int
    started: float
    """Start time, from ``time.perf_counter``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """The results of one finished optimizer step."""

    step: int
    epoch: int
    loss: float
    """Mean loss over the step's items."""
    learning_rate: float
    gradient_norm: float
    """L2 norm of the gradient before clipping."""
    items: int
    tokens: int
    """Tokens without padding."""
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
    """Train from a position to the last step, yielding each step once it is launched.

    The loss of a step is divided once, by the count over all its micro-batches. So gradient
    accumulation gives the gradient of the whole batch, even for a short last batch.

    Only finite gradients update the weights. After a non-finite loss or gradient the weights stay
    as they are. Pass the steps to `read` to detect that.

    The loop never reads a value from the device, so the device computes while the host prepares
    the next step.

    Args:
        work: the model, its data and its loss.
        position: where to start. Updated after each step.
        total_steps: number of the last optimizer step.
        precision: dtype of the matrix products.
        scaler: loss scaling, for fp16 only.
        clip: maximum gradient norm; 0 disables clipping.
        say: called with each line of output for the user.

    Raises:
        UserError: a step does not fit into memory, even in the smallest micro-batches.
    """
    # Stored as torch's schedulers store it, so that a second call does not scale the rate twice.
    base_rates = [
        group.setdefault("initial_lr", group["lr"]) for group in work.optimizer.param_groups
    ]
    parameters = list(work.model.parameters())
    tables = TableGradients(work.model)
    narrow = None
    if precision.mixed and work.exchange is None:  # otherwise the sharding code casts the weights
        narrow = NarrowWeights(work.model, precision.dtype)
    # The size of a sparse gradient is the number of distinct tokens, which only the device knows.
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
            batches, loss = _accumulate_within_memory(
                work, portions, position, micro_batches, narrow, scaler
            )
        if work.exchange is None:
            ranks.add_gradients(work.model)
        stopped = stopped | ~loss.isfinite()
        norm, stopped = _clip_and_step(work, parameters, tables, scaler, clip, stopped)
        tokens, padded_tokens = _count_tokens(batches)
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
    """Wait for several steps with a single device synchronization and yield their results.

    Raises:
        UserError: a loss or a gradient is not finite. The weights are those before that step.
    """
    rows = torch.stack([step.numbers for step in taken]).tolist()
    seconds = (time.perf_counter() - taken[0].started) / len(taken)
    for step, (loss, norm) in zip(taken, rows, strict=True):
        # A scaled fp16 gradient may overflow. The scaler then skips the step and lowers the scale.
        if not math.isfinite(loss) or not (step.may_overflow or math.isfinite(norm)):
            problem = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {norm}"
            position = step.position
            raise UserError(
                f"training stopped at step {position.step + 1} (epoch {step.epoch + 1}, "
                f"step {position.index + 1} of {step.steps_of_epoch}): the {problem}; "
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


def _accumulate_within_memory(
    work: Work,
    portions: Portions,
    position: Position,
    micro_batches: Step,
    narrow: NarrowWeights | None,
    scaler: torch.amp.GradScaler | None,
) -> tuple[list[Batch], Tensor]:
    """Compute the gradient of a step, with smaller micro-batches if memory runs out.

    Returns:
        The batches and the mean loss.
    """
    rng_state = random_state.of_device(work.device)
    while True:
        batches = portions.batches(micro_batches, position.epoch)
        try:
            return batches, _accumulate(work, batches, narrow, scaler)
        except torch.OutOfMemoryError:
            pass  # leave the handler first: the traceback keeps the activations alive
        del batches
        portions.halve(position.step + 1)
        work.optimizer.zero_grad(set_to_none=True)
        if work.device.type == "cuda":
            torch.cuda.empty_cache()
        random_state.restore(rng_state, work.device)


def _accumulate(
    work: Work,
    batches: Sequence[Batch],
    narrow: NarrowWeights | None,
    scaler: torch.amp.GradScaler | None,
) -> Tensor:
    """Accumulate the gradient of the mean loss over all micro-batches; return the mean loss."""
    work.model.train()  # at each step: evaluation, or loading a submodule, may have set eval mode
    work.optimizer.zero_grad(set_to_none=True)
    if narrow:
        narrow.renew()
    # A step may have no targets, such as the inside of one very long word: the count is then 0.
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


def _count_tokens(batches: Sequence[Batch]) -> tuple[int, int]:
    """Return the number of tokens in a step's batches, without and with padding."""
    tokens = sum(batch.num_tokens / batch.copies for batch in batches)
    padded = sum(batch.num_positions / batch.copies for batch in batches)
    totals = ranks.total(torch.tensor([tokens, padded], dtype=torch.float64)).round().tolist()
    return int(totals[0]), int(totals[1])


def _clip_and_step(
    work: Work,
    parameters: Sequence[nn.Parameter],
    tables: TableGradients,
    scaler: torch.amp.GradScaler | None,
    clip: float,
    stopped: Tensor,
) -> tuple[Tensor, Tensor]:
    """Clip the gradient and take the optimizer step, unless the run has stopped.

    Returns:
        The norm before clipping, and whether the run has stopped.
    """
    gradients = gradient_values(parameters)
    if scaler:
        # The scaler skips a step whose gradient is not finite.
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


def _clip(gradients: list[Tensor], norm: Tensor, max_norm: float) -> None:
    """Scale gradients down to a maximum norm."""
    norm = norm.double()
    if not waits(norm.device) and not norm > max_norm:
        return  # saves a pass over all gradients
    shards = [ranks.local(gradient) for gradient in gradients]
    factor = torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)
    torch._foreach_mul_(shards, factor.to(shards[0].dtype))


def _total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the L2 norm of all gradients, including the shards of other ranks."""
    norm = nn.utils.get_total_norm(gradients)
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return whole

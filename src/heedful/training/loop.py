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
from heedful.device_transfer import blocks_host, copy_to_device
from heedful.errors import UserError
from heedful.task import Say
from heedful.training import random_state, ranks
from heedful.training.device import Precision
from heedful.training.gradients import NarrowWeights, TableGradients, gradient_values
from heedful.training.memory import Portions
from heedful.training.optimize import step_unless


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSetup:
    """Everything the loop needs: the model, the optimizer, the data and the loss."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan_epoch: Callable[[int], Sequence[Step]]
    """Return the plan (all steps) of an epoch. Deterministic in the epoch."""
    load_batch: Callable[[Positions, int], Batch]
    """Return this rank's share of a batch, in host memory, from item positions and an epoch."""
    loss: Callable[[Callable[..., Any], Batch], Tensor]
    """Return the summed loss of a batch.

    An objective with several losses, whose means are added, returns one sum per loss."""
    loss_divisor: Callable[[Batch], float | Tensor]
    """Return the divisor of that sum (one per loss) for a batch in host memory."""
    lr_factor: Callable[[int], float]
    """Learning-rate schedule: return the learning-rate factor after a number of steps."""
    epoch_of: Callable[[int], int] = int
    """Return the epoch of a plan number. A stream has several plans per epoch."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of the model."""
    can_split: bool = True
    """Whether a micro-batch may be split further."""
    before_backward: Callable[[bool], None] | None = None
    """Called before each backward pass with whether it is the last of its step.

    Set where gradients are all-reduced during the backward pass."""


@dataclass(slots=True)
class Position:
    """Progress of a run. After each step, it points to the next one."""

    step: int = 0
    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LaunchedStep:
    """An optimizer step that has been launched but may not have finished on the device."""

    position: Position
    """Position of this step, not of the next one."""
    epoch: int
    steps_of_epoch: int
    loss_and_norm: Tensor
    """Loss and gradient norm, on the device. Shape (2,), float64."""
    may_overflow: bool
    """Whether a non-finite gradient norm is tolerated."""
    learning_rate: float
    num_items: int
    tokens: int
    padded_tokens: int
    start_time: float
    """Start time, from ``time.perf_counter``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """The results of one finished optimizer step."""

    step: int
    epoch: int
    loss: float
    """Mean loss over the step's items."""
    learning_rate: float
    gradient_norm: float
    """L2 norm of the gradient before clipping."""
    num_items: int
    tokens: int
    """Tokens without padding."""
    padded_tokens: int
    seconds: float


def train(
    work: TrainingSetup,
    position: Position,
    *,
    total_steps: int,
    precision: Precision,
    scaler: torch.amp.GradScaler | None = None,
    clip: float = 1.0,
    say: Say = lambda line: None,
) -> Iterator[LaunchedStep]:
    """Train from a position to the last step, yielding each step once it is launched.

    The loss of a step is divided once, by the count over all its micro-batches. So gradient
    accumulation gives the gradient of the whole batch, even for a short last batch.

    Only finite gradients update the weights. After a non-finite loss or gradient the weights stay
    as they are. Pass the steps to `read_results` to detect that.

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
    if (
        precision.mixed and work.before_backward is None
    ):  # otherwise the sharding code casts the weights
        narrow = NarrowWeights(work.model, precision.dtype)
    # The size of a sparse gradient is the number of distinct tokens, which only the device knows.
    sparse = ranks.size() == 1 and not blocks_host(work.device)
    stopped = torch.zeros((), dtype=torch.bool, device=work.device)
    portions = Portions(work.load_batch, splits=work.can_split, say=say)
    plan = work.plan_epoch(position.epoch)
    while position.step < total_steps:
        if position.index >= len(plan):  # above it after a run of a version with longer plans
            position.epoch, position.index = position.epoch + 1, 0
            plan = work.plan_epoch(position.epoch)
        started = time.perf_counter()
        factor = work.lr_factor(position.step)
        for group, rate in zip(work.optimizer.param_groups, base_rates, strict=True):
            group["lr"] = rate * factor
        micro_batches = plan[position.index]
        with tables.sparse() if sparse else nullcontext():
            batches, loss = _accumulate_within_memory(
                work, portions, position, micro_batches, narrow, scaler
            )
        if work.before_backward is None:
            ranks.add_gradients(work.model)
        stopped = stopped | ~loss.isfinite()
        norm, stopped = _clip_and_step(work, parameters, tables, scaler, clip, stopped)
        tokens, padded_tokens = _count_tokens(batches)
        taken = LaunchedStep(
            position=replace(position),
            epoch=work.epoch_of(position.epoch),
            steps_of_epoch=len(plan),
            loss_and_norm=torch.stack([loss, norm.double()]),
            may_overflow=scaler is not None,
            learning_rate=base_rates[0] * factor,
            num_items=sum(len(rows) for rows in micro_batches),
            tokens=tokens,
            padded_tokens=padded_tokens,
            start_time=started,
        )
        position.step, position.index = position.step + 1, position.index + 1
        yield taken


def read_results(taken: Sequence[LaunchedStep]) -> Iterator[StepResult]:
    """Wait for several steps with a single device synchronization and yield their results.

    Raises:
        UserError: a loss or a gradient is not finite. The weights are those before that step.
    """
    rows = torch.stack([step.loss_and_norm for step in taken]).tolist()
    seconds = (time.perf_counter() - taken[0].start_time) / len(taken)
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
        yield StepResult(
            step=step.position.step + 1,
            epoch=step.epoch,
            loss=loss,
            learning_rate=step.learning_rate,
            gradient_norm=norm,
            num_items=step.num_items,
            tokens=step.tokens,
            padded_tokens=step.padded_tokens,
            seconds=seconds,
        )


def _accumulate_within_memory(
    work: TrainingSetup,
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
    work: TrainingSetup,
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
    counts = sum(work.loss_divisor(batch) / batch.replicas for batch in batches)
    count = ranks.total(torch.as_tensor(counts, dtype=torch.float64)).clamp(min=1e-30)
    count = copy_to_device(count, work.device)
    total = torch.zeros((), dtype=torch.float64, device=work.device)
    for number, batch in enumerate(batches, start=1):
        if work.before_backward:
            work.before_backward(number == len(batches))
        losses = work.loss(narrow.forward if narrow else work.model, batch.to(work.device))
        share = (losses / count).sum() / batch.replicas
        total += share.detach()
        torch.autograd.backward(scaler.scale(share) if scaler else share)
        if narrow:
            narrow.collect()
    return ranks.total(total)


def _count_tokens(batches: Sequence[Batch]) -> tuple[int, int]:
    """Return the number of tokens in a step's batches, without and with padding."""
    tokens = sum(batch.num_tokens / batch.replicas for batch in batches)
    padded = sum(batch.num_positions / batch.replicas for batch in batches)
    totals = ranks.total(torch.tensor([tokens, padded], dtype=torch.float64)).round().tolist()
    return int(totals[0]), int(totals[1])


def _clip_and_step(
    work: TrainingSetup,
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
    _scale_gradients(work.optimizer)
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


def _scale_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Multiply the gradients of each group by its scale; see ``optimize.parameter_groups``."""
    for group in optimizer.param_groups:
        for parameter in group["params"] if group.get("gradient_scale", 1.0) != 1 else ():
            if parameter.grad is not None:
                ranks.local(parameter.grad).mul_(group["gradient_scale"])


def _clip(gradients: list[Tensor], norm: Tensor, max_norm: float) -> None:
    """Scale gradients down to a maximum norm."""
    norm = norm.double()
    if not blocks_host(norm.device) and not norm > max_norm:
        return  # saves a pass over all gradients
    shards = [ranks.local(gradient) for gradient in gradients]
    factor = torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)
    torch._foreach_mul_(shards, factor.to(shards[0].dtype))


def _total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the L2 norm of all gradients, including the shards of other ranks."""
    norm = nn.utils.get_total_norm(gradients)
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return whole

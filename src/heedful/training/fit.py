"""A whole run: the loop with evaluation, the best step, checkpoints, resuming and stopping."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from heedful.checkpoints import runs, steps
from heedful.checkpoints.averaging import averaged_weights
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.extras import missing
from heedful.settings import TrainSettings
from heedful.training import optimize, random_state
from heedful.training.device import Precision, return_free_memory
from heedful.training.ema import MovingAverage
from heedful.training.interrupt import stop_on_signal
from heedful.training.loop import Done, Position, Work, train
from heedful.training.progress import training_bar

_STEPS_OF_FREE_MEMORY = 64
"""Steps after which memory that is kept for the next ones is handed back: often enough to bound it,
too seldom to cost a hundredth of the time."""

_Log = Callable[[int, dict[str, Any]], None]
"""Keeps what is to be said of a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What a task hands over to be trained."""

    work: Work
    record: RunRecord
    total_steps: int
    steps_per_epoch: int
    precision: Precision
    score: Callable[[], dict[str, Any]] | None
    """Evaluate the model as it is on the development data."""
    metric: str
    """Key of the score that picks the best step; higher is better."""
    save: Callable[[Path], None]
    """Write the model and its tokenizer into a folder."""
    say: Callable[[str], None]
    """Tell the user something."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended."""

    step: int
    best_step: int | None
    scores: dict[str, Any]
    seconds: float
    tokens: int
    stopped: str | None
    """Why it ended before its last step, if it did."""


class Stopped(KeyboardInterrupt):
    """The user stopped the run; its checkpoint is saved and the message says how to go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Course:
    """What stays the same from a run's first step to its last."""

    job: Job
    settings: TrainSettings
    run: Path
    scaler: torch.amp.GradScaler | None
    average: MovingAverage | None


def fit(job: Job, settings: TrainSettings, run: Path) -> Outcome:
    """Train to the end, from the newest whole checkpoint of the run if there is one.

    Raises:
        UserError: the loss is not finite; the last good checkpoint is kept and named.
        Stopped: the user asked to stop; a checkpoint is saved.
    """
    started, tokens, stopped = time.monotonic(), 0, None
    deadline = started + 60 * (settings.max_minutes or math.inf)
    evaluate_every = settings.evaluate_every or job.steps_per_epoch
    scores: dict[str, Any] = {}
    course, state = _begin(job, settings, run)
    position = Position(step=state.step, epoch=state.epoch, index=state.index)
    with (
        training_bar(job.total_steps, position.step) as show,
        stop_on_signal() as request,
        _metrics_log(run, settings.tensorboard) as log,
    ):
        # A run killed after early stopping, before its end was written, has nothing left to train.
        for step in [] if _out_of_patience(course, state) else _steps(course, position):
            tokens += step.tokens
            show(step)
            log(step.step, _step_row(step))
            last = step.step == job.total_steps
            if not last and time.monotonic() > deadline:
                last, stopped = True, f"--max-minutes {settings.max_minutes:g} passed"
            if job.score and (last or step.step % evaluate_every == 0):
                scores, state = _evaluate(course, state, step.step, log)
                if _out_of_patience(course, state):
                    last, stopped = True, f"no gain in {settings.patience} evaluations"
            state = replace(state, step=position.step, epoch=position.epoch, index=position.index)
            wanted = request.signal_name is not None and not last
            if last or wanted or _is_worth_keeping(course, state):
                _save(course, state)
            if wanted:
                raise Stopped(
                    f"{request.signal_name}: stopped after step {step.step} of {job.total_steps}; "
                    "the same command with --resume goes on from there"
                )
            if last:
                break
    scores = _finish(course, state, scores)
    return Outcome(
        step=state.step,
        best_step=state.best_step,
        scores=scores,
        seconds=time.monotonic() - started,
        tokens=tokens,
        stopped=stopped,
    )


def _begin(job: Job, settings: TrainSettings, run: Path) -> tuple[_Course, steps.TrainingState]:
    """Load the newest whole checkpoint into the job, or give the state of a fresh run."""
    model = job.work.model
    scaler = torch.amp.GradScaler() if job.precision.dtype is torch.float16 else None
    average = None if settings.ema is None else MovingAverage(model, settings.ema)
    course = _Course(job=job, settings=settings, run=run, scaler=scaler, average=average)
    found, skipped = steps.newest(run)
    for line in skipped:
        job.say(line)
    # What comes after the step we go on from is damaged, and will be written again.
    steps.drop_after(run, found.state.step if found else 0)
    runs.cut_metrics(run, found.state.step if found else 0)
    if found is None:
        return course, steps.TrainingState()
    if found.model.keys() != model.state_dict().keys():
        raise UserError(
            f"{found.folder}: another version of heedful wrote it, whose weights have other names; "
            "give --overwrite to start anew, or go on with that version"
        )
    if average and found.average is not None:
        model.load_state_dict(found.average)
        average.restart()
    model.load_state_dict(found.model)
    optimize.load_optimizer_tensors(model, job.work.optimizer, found.optimizer)
    random_state.load_random_tensors(found.random)
    if scaler and found.state.loss_scale is not None:
        scaler.load_state_dict(
            scaler.state_dict()
            | {"scale": found.state.loss_scale, "_growth_tracker": found.state.loss_scale_streak}
        )
    job.say(f"going on from {found.folder}")
    return course, found.state


def _steps(course: _Course, position: Position) -> Iterator[Done]:
    """Train from a position on, averaging the weights and bounding the memory.

    Raises:
        UserError: a loss or a gradient is not finite; it says which checkpoint is left.
    """
    try:
        for step in train(
            course.job.work,
            position,
            total_steps=course.job.total_steps,
            precision=course.job.precision,
            scaler=course.scaler,
            clip=course.settings.clip,
        ):
            if course.average:
                course.average.update(step.step)
            if step.step % _STEPS_OF_FREE_MEMORY == 0:
                return_free_memory()
            yield step
    except UserError as error:
        kept = "no checkpoint had been written"
        if done := steps.steps(course.run):
            kept = f"the last checkpoint is {steps.folder_of(course.run, done[-1])}"
        raise UserError(f"{error}; {kept}") from None


def _evaluate(
    course: _Course, state: steps.TrainingState, step: int, log: _Log
) -> tuple[dict[str, Any], steps.TrainingState]:
    """Score the model as it is after a step, and compare it with the best ones so far."""
    assert course.job.score is not None
    with course.average.in_place() if course.average else nullcontext():
        scores = course.job.score()
    log(step, {"dev": {name: value for name, value in scores.items() if _is_number(value)}})
    return scores, _track(state, scores[course.job.metric], step, course.settings.average)


def _track(state: steps.TrainingState, value: float, step: int, count: int) -> steps.TrainingState:
    """Compare an evaluation with the best ones so far, of which ``count`` are remembered.

    Of equal ones the earlier is the better.
    """
    gained = not state.best or value > state.best[0][0]
    ranked = sorted([*state.best, (value, step)], key=lambda one: -one[0])
    without = 0 if gained else state.evaluations_without_gain + 1
    return replace(state, best=tuple(ranked[:count]), evaluations_without_gain=without)


def _out_of_patience(course: _Course, state: steps.TrainingState) -> bool:
    patience = course.settings.patience
    return patience is not None and state.evaluations_without_gain >= patience


def _is_worth_keeping(course: _Course, state: steps.TrainingState) -> bool:
    """Tell whether a step is one of the best, or one at which any run writes a checkpoint."""
    among_best = any(step == state.step for _, step in state.best)
    return among_best or state.step % course.settings.checkpoint_every == 0


def _save(course: _Course, state: steps.TrainingState) -> None:
    """Write a checkpoint of the state as it is, and delete those that it makes needless."""
    model = course.job.work.model
    if course.scaler:
        scaling = course.scaler.state_dict()
        state = replace(
            state, loss_scale=scaling["scale"], loss_scale_streak=scaling["_growth_tracker"]
        )
    averaged = None
    if course.average:
        with course.average.in_place():
            averaged = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    steps.save(
        course.run,
        state,
        model=model.state_dict(),
        average=averaged,
        optimizer=optimize.optimizer_tensors(model, course.job.work.optimizer),
        random=random_state.random_tensors(),
    )
    needed = _final_steps(course, state)
    steps.prune(course.run, keep=course.settings.keep_checkpoints, needed=needed)


def _final_steps(course: _Course, state: steps.TrainingState) -> list[int]:
    """Return the steps whose checkpoints the final weights come from, as far as is known.

    The best ones, best first; without evaluations the last ones, newest first. Of these only those
    that any run writes: one more, at which a run was stopped, must not change the result.
    """
    if state.best:
        return [step for _, step in state.best]
    regular = [
        step
        for step in steps.steps(course.run)
        if step == state.step or step % course.settings.checkpoint_every == 0
    ]
    return regular[::-1][: course.settings.average]


def _finish(course: _Course, state: steps.TrainingState, scores: dict[str, Any]) -> dict[str, Any]:
    """Write the finished run with its final weights; return their scores."""
    job, run = course.job, course.run
    final = _final_steps(course, state)
    if course.average or final != [state.step]:
        folders = [steps.folder_of(run, step) for step in final]
        job.work.model.load_state_dict(averaged_weights(folders))
    if len(final) > 1:
        job.say(f"the final weights are the mean of those of steps {', '.join(map(str, final))}")
        scores = job.score() if job.score else scores
    with runs.finished(run) as folder:
        job.save(folder)
        runs.write_record(folder, job.record)
    steps.prune(run, keep=1)
    return scores


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _step_row(step: Done) -> dict[str, object]:
    return {
        "epoch": step.epoch,
        "loss": step.loss,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm if math.isfinite(step.gradient_norm) else None,
        "tokens": step.tokens,
        "tokens_per_second": round(step.tokens / max(step.seconds, 1e-9), 1),
    }


@contextmanager
def _metrics_log(run: Path, tensorboard: bool) -> Iterator[_Log]:
    """Give a function that adds a row to ``metrics.jsonl`` and, if wanted, to TensorBoard."""
    writer = None
    if tensorboard:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing("tensorboard") from None
        writer = SummaryWriter(log_dir=str(run / "tensorboard"))

    def log(step: int, row: dict[str, Any]) -> None:
        runs.append_metrics(run, {"step": step, **row})
        if writer:
            flat = {f"dev/{k}": v for k, v in row["dev"].items()} if "dev" in row else row
            for name, value in flat.items():
                if _is_number(value):
                    writer.add_scalar(name, value, step)

    try:
        yield log
    finally:
        if writer:
            writer.close()

"""A whole run: the training loop with evaluation, checkpoints, resuming and early stopping."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from heedful.checkpoints import runs, steps
from heedful.checkpoints.averaging import averaged_weights
from heedful.checkpoints.runs import RunRecord
from heedful.device_transfer import blocks_host
from heedful.errors import UserError, count_of, message_of
from heedful.settings import TrainSettings
from heedful.task import Say
from heedful.training import optimize, random_state, ranks
from heedful.training.allocator import return_free_memory
from heedful.training.device import Precision
from heedful.training.ema import MovingAverage
from heedful.training.interrupt import stop_on_signal
from heedful.training.log import Log, metrics_log, scores_row, step_row
from heedful.training.loop import (
    LaunchedStep,
    Position,
    StepResult,
    TrainingSetup,
    read_results,
    train,
)
from heedful.training.progress import training_bar
from heedful.training.stream import Stream
from heedful.training.trained import in_parts

_STEPS_OF_FREE_MEMORY = 64
"""Steps between two returns of free memory to the system: often enough to bound memory, and rare
enough to cost less than 1% of the time."""

_UNREAD_STEPS, _UNREAD_SECONDS = 32, 10.0
"""Maximum number of steps, and maximum time, between two reads of results from an asynchronous
device: often enough for a live progress bar, and rare enough to cost nothing."""

_HIGH_RATE = 0.1
"""Share of the highest learning rate that a run may lack of its decay without a note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything about a run that does not change from its first step to its last."""

    folder: Path
    work: TrainingSetup
    record: RunRecord
    settings: TrainSettings
    total_steps: int
    steps_per_epoch: int
    by_length: bool
    """Whether items of similar length are grouped into a step."""
    precision: Precision
    score: Callable[[], dict[str, Any]] | None
    """Evaluates the current model on the development data."""
    metric: str
    """Key of the score that selects the best step; higher is better."""
    save: Callable[[Path, str], None]
    """Writes the model and its tokenizer into a folder."""
    whole: Callable[[bool], AbstractContextManager[None]]
    """Gathers sharded weights into the model that is evaluated and saved. A collective operation;
    its argument is whether this rank needs the weights."""
    say: Say
    scaler: torch.amp.GradScaler | None = None
    """Loss scaling, for fp16 only."""
    average: MovingAverage | None = None
    """Moving average of the weights, if enabled."""
    stream: Stream | None = None
    """The source of streamed data, if the data is streamed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended."""

    step: int
    best_step: int | None
    scores: dict[str, Any]
    """Scores of the saved weights on the development data; empty without such data."""
    seconds: float
    """Time since the run was started or resumed."""
    tokens: int
    """Tokens trained on in this time."""
    session_steps: int
    """Steps in this time: fewer than ``step`` if the run was resumed."""
    stopped: str | None
    """Why the run ended before its last step, if it did."""


class Stopped(KeyboardInterrupt):
    """The user stopped the run. Its checkpoint is saved, and the message says how to resume."""


def fit(run: Run) -> Outcome:
    """Train to the end, resuming from the newest intact checkpoint of the run if there is one.

    Raises:
        UserError: the loss is not finite; the last good checkpoint is kept, and the error names it.
        Stopped: the user requested a stop; a checkpoint is saved.
    """
    settings, scores, unread = run.settings, dict[str, Any](), list[LaunchedStep]()
    started, tokens, stopped = time.monotonic(), 0, None
    deadline = started + 60 * (settings.max_minutes or math.inf)
    evaluate_every = settings.steps_between_evaluations(run.steps_per_epoch, run.total_steps)
    state = first = _resume_or_start(run)
    position = Position(step=state.step, epoch=state.epoch, index=state.index)
    with (
        _progress_bar(run, position) as show,
        stop_on_signal() as request,
        metrics_log(run.folder, settings.tensorboard, state.step) as log,
    ):
        # A run killed between early stopping and its final save has nothing left to train.
        for taken in [] if _out_of_patience(run, state) else _steps(run, position):
            unread.append(taken)
            tokens += taken.tokens
            if _is_due(run, unread, position.step):
                _report(run, unread, show, log)
            last = position.step == run.total_steps
            stop_requested, timed_out = ranks.any_of(
                [request.signal_name is not None, time.monotonic() > deadline]
            )
            if not last and timed_out:
                last, stopped = True, f"--max-minutes {settings.max_minutes:g} passed"
                _note_high_rate(run, position.step)
            evaluated = bool(run.score) and (last or position.step % evaluate_every == 0)
            # Check that all steps were good before the weights are evaluated or saved.
            if unread and (last or stop_requested or evaluated):
                _report(run, unread, show, log)
            if evaluated:
                latest, state = _evaluate(run, state, position.step, log)
                scores = latest if state.best_step == position.step else scores
                if _out_of_patience(run, state):
                    last, stopped = True, f"no improvement in {settings.patience} evaluations"
            state = _state_at(run, state, position)
            if last or stop_requested or _is_worth_keeping(run, state):
                _save(run, state)
            if last:
                break
            if stop_requested:
                raise _stopped(run, request.signal_name, position.step)
    scores = _finish(run, state, scores)
    return Outcome(
        step=state.step,
        best_step=state.best_step,
        scores=scores,
        seconds=time.monotonic() - started,
        tokens=tokens,
        session_steps=state.step - first.step,
        stopped=stopped,
    )


def _note_high_rate(run: Run, step: int) -> None:
    """Tell a user whose run ends early, at a high learning rate, how to end it at a low one."""
    now, end = (run.work.lr_factor(at) for at in (step, run.total_steps))
    if now - end > _HIGH_RATE:
        run.say(
            f"the learning rate was still at {now:.0%} of its highest: --steps {step} takes as "
            "long, and lets it decay, which often gives a better model"
        )


def _stopped(run: Run, signal_name: str | None, step: int) -> Stopped:
    return Stopped(
        f"{signal_name or 'another process'}: stopped after step {step} of {run.total_steps}; the "
        "same command with --resume continues from there"
    )


def _progress_bar(
    run: Run, position: Position
) -> AbstractContextManager[Callable[[StepResult], None]]:
    """Show the progress on the first rank only."""
    if ranks.is_first():
        return training_bar(run.total_steps, position.step)
    return nullcontext(lambda step: None)


def _resume_or_start(run: Run) -> steps.TrainingState:
    """Load the newest intact checkpoint into the run, or return the state of a new run."""
    model = run.work.model
    checkpoint, skipped = steps.newest(run.folder, model.state_dict())
    for line in skipped:
        run.say(line)
    # Checkpoints after the step to resume from are damaged and will be written again.
    last_step = checkpoint.state.step if checkpoint else 0
    ranks.check_same({"the newest intact checkpoint": last_step})
    if ranks.is_first():
        steps.drop_after(run.folder, last_step)
        runs.cut_metrics(run.folder, last_step)
    if checkpoint is None:
        if skipped:
            run.say("no checkpoint is intact: training starts over at step 1")
        random_state.seed_apart(run.settings.seed)
        return steps.TrainingState(alike=run.by_length)
    if checkpoint.model.keys() != model.state_dict().keys():
        raise UserError(
            f"{checkpoint.folder}: written by another version of heedful, with other names of the "
            "weights; give --overwrite to start over, or continue with that version"
        )
    if checkpoint.state.alike != run.by_length:
        raise UserError(
            f"{checkpoint.folder}: written by another version of heedful, which trains on the "
            "examples in another order; give --overwrite to start over, or continue with that "
            "version"
        )
    if run.average and checkpoint.average is not None:
        model.load_state_dict(checkpoint.average)
        run.average.restart()
    model.load_state_dict(checkpoint.model)
    optimize.load_optimizer_tensors(model, run.work.optimizer, checkpoint.optimizer)
    random_state.load_random_tensors(
        checkpoint.random, seed=run.settings.seed, step=checkpoint.state.step
    )
    if run.scaler and checkpoint.state.loss_scale is not None:
        run.scaler.load_state_dict(
            run.scaler.state_dict()
            | {
                "scale": checkpoint.state.loss_scale,
                "_growth_tracker": checkpoint.state.loss_scale_streak,
            }
        )
    if run.stream:
        assert checkpoint.state.stream is not None  # the settings are the same
        run.stream.resume(checkpoint.state.epoch, checkpoint.state.stream)
    run.say(f"resuming from {checkpoint.folder}")
    return checkpoint.state


def _steps(run: Run, position: Position) -> Iterator[LaunchedStep]:
    """Train from a position, average the weights and bound the memory."""
    with _naming_checkpoint(run):
        for taken in train(
            run.work,
            position,
            total_steps=run.total_steps,
            precision=run.precision,
            scaler=run.scaler,
            clip=run.settings.clip,
            say=run.say,
        ):
            if run.average:
                run.average.update(position.step)
            if position.step % _STEPS_OF_FREE_MEMORY == 0:
                return_free_memory()
            yield taken


def _is_due(run: Run, unread: Sequence[LaunchedStep], step: int) -> bool:
    """Return whether to read the results of the unread steps, the last of which is ``step``."""
    max_unread = _UNREAD_STEPS if blocks_host(run.work.device) else 1
    waiting_time = time.perf_counter() - unread[0].start_time
    return len(unread) >= max_unread or waiting_time > _UNREAD_SECONDS or _is_regular(run, step)


def _report(
    run: Run, unread: list[LaunchedStep], show: Callable[[StepResult], None], log: Log
) -> None:
    """Wait for the results of the unread steps, show and log them, and clear the list.

    Raises:
        UserError: a loss or a gradient is not finite; the error names the last checkpoint.
    """
    with _naming_checkpoint(run):
        for step in read_results(unread):
            show(step)
            log(step.step, step_row(step))
    unread.clear()


@contextmanager
def _naming_checkpoint(run: Run) -> Iterator[None]:
    """Add the last checkpoint to error messages."""
    try:
        yield
    except UserError as error:
        kept = "no checkpoint had been written"
        if done := steps.steps(run.folder):
            kept = f"the last checkpoint is {steps.folder_of(run.folder, done[-1])}"
        raise UserError(f"{error}; {kept}") from None


@contextmanager
def _writing(run: Run, what: str) -> Iterator[None]:
    """Add to system errors, such as a full disk, how to resume the run."""
    with _naming_checkpoint(run):
        try:
            yield
        except OSError as error:  # the library that writes tensors has its own error message
            reason = error.strerror or message_of(error).rpartition(" could not be written: ")[2]
            raise UserError(
                f"{run.folder}: {what} could not be written: {reason}; once that is fixed, the "
                "same command with --resume continues"
            ) from None


def _evaluate(
    run: Run, state: steps.TrainingState, step: int, log: Log
) -> tuple[dict[str, Any], steps.TrainingState]:
    """Evaluate the model after a step and update the ranking of the best steps."""
    assert run.score is not None
    with run.average.in_place() if run.average else nullcontext(), run.whole(True):
        scores = run.score()
    log(step, scores_row(scores))
    if run.metric not in scores:
        raise UserError(f"--metric {run.metric}: it cannot be computed for any item of --dev")
    return scores, _track(state, scores[run.metric], step, run.settings.average)


def _track(state: steps.TrainingState, value: float, step: int, count: int) -> steps.TrainingState:
    """Add an evaluation to the ranking of the ``count`` best ones.

    In a tie, the later one ranks higher: it has learnt more, and on little --dev data, or on
    unequal labels, even a model that has learnt nothing may tie with the best ones.
    """
    gained = not state.best or value > state.best[0][0]
    ranked = sorted([*state.best, (value, step)], key=lambda one: (-one[0], -one[1]))
    without_gain = 0 if gained else state.evaluations_without_gain + 1
    return replace(state, best=tuple(ranked[:count]), evaluations_without_gain=without_gain)


def _state_at(run: Run, state: steps.TrainingState, position: Position) -> steps.TrainingState:
    """Return the state with the current position of the run."""
    return replace(
        state,
        step=position.step,
        epoch=position.epoch,
        index=position.index,
        stream=run.stream.bookmark(position.epoch) if run.stream else None,
    )


def _out_of_patience(run: Run, state: steps.TrainingState) -> bool:
    patience = run.settings.patience
    return patience is not None and state.evaluations_without_gain >= patience


def _is_worth_keeping(run: Run, state: steps.TrainingState) -> bool:
    """Return whether to save the step: it is among the best, or a regular checkpoint is due."""
    among_best = any(step == state.step for _, step in state.best)
    return among_best or _is_regular(run, state.step)


def _is_regular(run: Run, step: int) -> bool:
    return step % run.settings.checkpoint_every == 0


def _save(run: Run, state: steps.TrainingState) -> None:
    """Write a checkpoint of the current state and delete those that are no longer needed."""
    rng_states = random_state.random_tensors()
    sharded = in_parts(run.settings)
    if not ranks.is_first() and not sharded:
        ranks.barrier()
        return
    model = run.work.model
    if run.scaler:
        scaling = run.scaler.state_dict()
        state = replace(
            state, loss_scale=scaling["scale"], loss_scale_streak=scaling["_growth_tracker"]
        )
    averaged = None
    if run.average:
        with run.average.in_place():
            averaged = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write = steps.save_divided if sharded else steps.save
    with _writing(run, f"the checkpoint of step {state.step}"):
        write(
            run.folder,
            state,
            model=model.state_dict(),
            average=averaged,
            optimizer=optimize.optimizer_tensors(model, run.work.optimizer),
            random=rng_states,
        )
    if ranks.is_first():
        needed = _final_steps(run, state)
        steps.prune(run.folder, keep=run.settings.keep_checkpoints, needed=needed)
    ranks.barrier()


def _final_steps(run: Run, state: steps.TrainingState) -> list[int]:
    """Return the steps whose checkpoints currently make up the final weights.

    These are the best steps, best first; without evaluations the last ones, newest first. Of the
    latter only regular checkpoints count: an extra one, from a stopped run, must not change the
    result.
    """
    if state.best:
        return [step for _, step in state.best]
    regular = [
        step for step in steps.steps(run.folder) if step == state.step or _is_regular(run, step)
    ]
    return regular[::-1][: run.settings.average]


def _trained(run: Run, state: steps.TrainingState, final: Sequence[int]) -> str:
    """Return a sentence about the steps taken and the steps of the final weights."""
    taken = f"Trained for {state.step:,} of {count_of(run.total_steps, 'step')}"
    if len(final) > 1:
        numbers = ", ".join(map(str, sorted(final)))
        return f"{taken}; the weights are the mean of those of steps {numbers}."
    return f"{taken}; the weights are those of step {final[0]}."


def _finish(run: Run, state: steps.TrainingState, scores: dict[str, Any]) -> dict[str, Any]:
    """Write the finished run with its final weights; return their scores.

    Args:
        run: the run.
        state: the state after the last step.
        scores: scores of the best step; empty if that step was before the run was resumed.
    """
    final = _final_steps(run, state)
    if run.average or final != [state.step]:
        folders = [steps.folder_of(run.folder, step) for step in final]
        model = run.work.model
        model.load_state_dict(averaged_weights(folders, model.state_dict()))
    if len(final) == 1 < run.settings.average:
        what = "--evaluate-every" if run.score else "--checkpoint-every"
        run.say(
            f"--average {run.settings.average}: the final weights are those of step {final[0]} "
            f"alone; with a smaller {what} there are more checkpoints to average"
        )
    if len(final) > 1:
        run.say(f"the final weights are the mean of those of steps {', '.join(map(str, final))}")
    if run.score and (len(final) > 1 or not scores):
        with run.whole(True):
            scores = run.score()
    with run.whole(ranks.is_first()):
        if ranks.is_first():
            with _writing(run, "the trained model"), runs.finished(run.folder) as folder:
                run.save(folder, _trained(run, state, final))
                runs.write_record(folder, run.record)
            steps.prune(run.folder, keep=1)
    ranks.barrier()
    return scores

"""What every verb of ``heedful train`` does: it opens a run folder and trains a model for it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedful.checkpoints.opening import open_run
from heedful.checkpoints.runs import RunRecord
from heedful.commands.card import write_card
from heedful.commands.evaluate import score_records
from heedful.commands.feed import Feed
from heedful.doctor import versions
from heedful.errors import UserError, unknown_name
from heedful.models.model import Model
from heedful.predictor import Predictor
from heedful.reading import fingerprint
from heedful.settings import (
    DataSettings,
    ParallelSettings,
    PredictSettings,
    RunSettings,
    TrainSettings,
)
from heedful.tasks import Task
from heedful.training.device import choose_device, choose_precision
from heedful.training.fit import Job, Outcome, fit
from heedful.training.loop import Work
from heedful.training.schedule import schedule

Say = Callable[[str], None]
"""Takes a line meant for the user."""


def check_evaluations(
    training: TrainSettings, dev: Sequence[Path] | None, metrics: Sequence[str]
) -> None:
    """Refuse a metric that the task does not have, and options of evaluations where there are none.

    Raises:
        UserError: naming the option.
    """
    if training.metric is not None and training.metric not in metrics:
        raise unknown_name("--metric", training.metric, metrics)
    for name in ("evaluate_every", "metric", "patience"):
        if dev is None and getattr(training, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for evaluations on --dev: give --dev too")


def open_training(
    task: Task,
    goal: Any,
    max_length: int,
    data: DataSettings | ParallelSettings,
    settings: Sequence[Any],
    place: RunSettings,
    say: Say,
) -> RunRecord | None:
    """Open the folder of a run.

    Args:
        task: what is learnt.
        goal: the same of its data.
        max_length: tokens that the model is given at once.
        data: what it is learnt from.
        settings: all other settings that decide what is learnt.
        place: the folder.
        say: told where there is nothing to do.

    Returns:
        What the folder says of the run; None where it is to go on but is finished.

    Raises:
        UserError: see `heedful.checkpoints.opening.open_run`.
    """
    merged: dict[str, Any] = {}
    for group in (data, *settings):
        merged |= asdict(group)
    record = RunRecord(
        task=task.name,
        goal=plain_values(asdict(goal)),
        max_length=max_length,
        settings=plain_values(merged),
        data=[asdict(print_) for print_ in fingerprint(data.train)],
        versions=versions(),
    )
    if open_run(place, record):
        return record
    say(f"{place.out} is finished; nothing to do")
    return None


def plain_values(settings: dict[str, Any]) -> dict[str, Any]:
    """Make settings fit for JSON: paths as text."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: plain(value) for key, value in settings.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    """A model that is to be trained, with all that goes with it."""

    task: Task
    goal: Any
    model: Model
    tokenizer: Any
    record: RunRecord


def carry_out(
    trainee: Trainee,
    feed: Feed,
    training: TrainSettings,
    out: Path,
    optimizer: torch.optim.Optimizer,
    dev: Callable[[], Iterable[Any]] | None,
    say: Say,
    *,
    beam: int = PredictSettings().beam,
) -> Outcome:
    """Train a model, from the newest checkpoint if there is one, and finish its run folder.

    Args:
        trainee: the model.
        feed: what it learns from.
        training: how to train.
        out: the run folder, opened.
        optimizer: changes its weights.
        dev: gives the records that it is evaluated on, anew each time; None where it is not.
        say: takes each line meant for the user.
        beam: texts kept while one is written, in evaluations.

    Raises:
        UserError: training diverged; see `heedful.training.fit.fit`.
    """
    task, goal, model = trainee.task, trainee.goal, trainee.model
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    steps_per_epoch = -(-feed.items // training.batch_size)
    total_steps = training.steps or training.epochs * steps_per_epoch
    if model.can_recompute:
        model.gradient_checkpointing = training.gradient_checkpointing
    work = Work(
        model=model,
        optimizer=optimizer,
        plan=feed.plan,
        fetch=lambda items, epoch: feed.fetch(items, epoch).to(device),
        loss=lambda forward, batch: task.loss(forward, batch, goal),
        count=lambda batch: task.count(batch, goal),
        factor=schedule(training.schedule, total_steps=total_steps, warmup=training.warmup),
    )
    job = Job(
        work=work,
        record=trainee.record,
        total_steps=total_steps,
        steps_per_epoch=steps_per_epoch,
        precision=precision,
        score=None if dev is None else partial(_scores, trainee, training, beam, dev),
        metric=training.metric or task.metrics(goal)[0],
        save=partial(_save, trainee),
        say=say,
    )
    say(task.card(goal))
    say(
        f"{feed.items:,} examples, {total_steps:,} step{'s'[: total_steps != 1]} of "
        f"{training.batch_size}, "
        f"{str(precision.dtype).removeprefix('torch.')} on {device} ({precision.reason})"
    )
    return fit(job, training, out)


def _scores(
    trainee: Trainee, training: TrainSettings, beam: int, dev: Callable[[], Iterable[Any]]
) -> dict[str, Any]:
    """Score a model as it is, as a run of it would be scored."""
    computing = PredictSettings(
        precision=training.precision,
        device=training.device,
        batch_tokens=training.batch_tokens,
        beam=beam,
    )
    predictor = Predictor(trainee.model, trainee.tokenizer, trainee.record, computing)
    return score_records(predictor, dev())


def _save(trainee: Trainee, folder: Path) -> None:
    """Write everything that answers need, and what says what they are."""
    task, goal, model, record = trainee.task, trainee.goal, trainee.model, trainee.record
    model.save_pretrained(folder)
    trainee.tokenizer.save_pretrained(folder)
    write_card(folder, record, task.card(goal))
    task.write_beside(goal, model, record.max_length, folder)

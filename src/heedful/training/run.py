"""Set up and run a training, in the same order of steps for every task.

Decide the task, create the model, open the run folder, encode the data, train, finish. The caller
passes in the scoring, which depends on modules above training.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedful.batches import Batch, Positions
from heedful.batches.buckets import MAX_PADDING
from heedful.checkpoints.card import write_card
from heedful.checkpoints.opening import (
    bring_back,
    check_goal,
    check_run,
    data_folder,
    discarded_unless_prepared,
    forget_old,
    held,
    make_run,
    tidy_finished,
)
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError, check_known, count_of
from heedful.models.dropout import set_attention_dropout
from heedful.settings import HEAD_RATE, LongText, PredictSettings, refuse_options
from heedful.settings.training import FINE_TUNING
from heedful.task import AnyTask, LengthLimit, Recipe, Say, Start
from heedful.training import ranks
from heedful.training.data_notes import say_if_damaged, say_shared_files
from heedful.training.device import Precision, choose_precision, prepare_device
from heedful.training.distil import (
    Distillation,
    check_teacher,
    distillation,
    student_of,
    teacher_record,
)
from heedful.training.ema import MovingAverage
from heedful.training.examples import Examples
from heedful.training.fit import Outcome, Run, fit
from heedful.training.gradients import NarrowWeights
from heedful.training.log import check_log
from heedful.training.loop import TrainingSetup
from heedful.training.memory import tokens_that_fit
from heedful.training.optimize import adamw
from heedful.training.progress import counted
from heedful.training.prune import check_prunable, prune
from heedful.training.record import new_record, shared_facts, with_goal, with_start
from heedful.training.schedule import schedule, warmup_warning
from heedful.training.shared_disk import check_shared
from heedful.training.stream import Stream
from heedful.training.trained import Trained, in_parts, trained
from heedful.training.untrained import say_if_untrained, trains_head

TargetsOf = Callable[[AnyTask, Recipe, Say], Recipe]
"""Makes a recipe's teacher generate texts and returns a recipe that trains on them."""

Score = Callable[[Start, RunRecord, Iterable[Any]], dict[str, Any]]
"""Evaluates the current model on labelled records."""


def train(
    kind: type[AnyTask], recipe: Recipe, *, score: Score, targets_of: TargetsOf, say: Say
) -> Outcome | None:
    """Train a model for a task and write a run folder.

    Args:
        kind: the task.
        recipe: the data, the settings and the run folder.
        score: evaluates the model during training.
        targets_of: has a text-generating teacher generate the training targets.
        say: called with each line of output for the user.

    Returns:
        How the run ended; None if the run to resume is already finished.

    Raises:
        UserError: any invalid input; where possible, before anything is written.
    """
    data, out = recipe.data, recipe.run.out
    device = prepare_device(recipe.training)
    teacher_record(recipe.teaching, kind.name)
    record = new_record(kind, recipe)
    if _is_finished(kind, recipe, record, say):
        return None
    say_if_damaged(kind, recipe, say)
    task, record = _decide(kind, recipe, record)
    check_evaluations(recipe, task.metrics())
    check_teacher(task, recipe.teaching)
    task.check_files(recipe, say)
    start = _start(task, recipe, say)
    record = with_start(record, start)
    if not in_parts(recipe.training):  # otherwise each rank moves its own shard
        start.model.to(device)
    lessons = _distillation(task, recipe, start, device)
    with ExitStack() as stack:
        with ranks.failing_together():
            if ranks.is_first():
                check_log(recipe.training)
                stack.enter_context(held(out))
        check_run(recipe.run, record)  # again: another training may have used the folder meanwhile
        ranks.check_same(shared_facts(record))
        with discarded_unless_prepared(out) if ranks.is_first() else nullcontext():
            if ranks.is_first():
                make_run(recipe.run, record)
            check_shared(out)
        with data_folder(out) as folder:
            with discarded_unless_prepared(out) if ranks.is_first() else nullcontext():
                dev = _dev(task, recipe, start, folder)
                if task.teacher_output == "texts" and recipe.teaching.teacher is not None:
                    with ranks.first_before_others():
                        recipe = targets_of(task, recipe, say)
                task, start, examples = _examples(task, recipe, start, folder, say)
                if data.prune is not None:
                    with ranks.first_before_others():
                        say(prune(start.model, task, examples, data.prune, out))
                _say_notes(start, recipe, record, say)
                ranks.send_weights(start.model)
                wrapped, start = trained(start, recipe, device)
                record = with_goal(record, task, start.max_length)
                scorer = partial(_score, score, start, record, dev) if dev else None
                run = _run(wrapped, lessons, task, recipe, start, examples, record, scorer, say)
            if ranks.is_first():
                forget_old(out)
            say(task.model_card())
            say(_summary(run, examples, device))
            outcome = fit(run)
    task.remove_resume_files(recipe)
    return outcome


def _say_notes(start: Start, recipe: Recipe, record: RunRecord, say: Say) -> None:
    """Say what may spoil the result, once all errors are ruled out."""
    say_shared_files(record, say)
    say_if_untrained(start.model, recipe, say)


def _summary(run: Run, examples: Examples | Stream, device: torch.device) -> str:
    """Return a line that sums up the training settings and the device."""
    return (
        f"{examples.card}, {count_of(run.total_steps, 'step')} of {run.settings.batch_size}, "
        f"learning rate {run.work.optimizer.defaults['lr']:.3g}, "
        f"{run.precision.name} on {device} ({run.precision.reason})"
        f"{warmup_warning(run.settings.schedule, run.settings.warmup, run.total_steps)}"
        f"{_patience_warning(run)}"
    )


def _patience_warning(run: Run) -> str:
    """Return the end of a message if early stopping cannot shorten the run, else ''."""
    settings = run.settings
    every = settings.steps_between_evaluations(run.steps_per_epoch, run.total_steps)
    evaluations = math.ceil(run.total_steps / every)
    # The first evaluation is always a gain, and the last one is at the end anyway.
    if settings.patience is None or evaluations > settings.patience + 1:
        return ""
    return (
        f"; --patience {settings.patience} cannot end it early, with {evaluations} "
        f"evaluation{'s'[: evaluations != 1]}: give a smaller --evaluate-every"
    )


def _is_finished(kind: type[AnyTask], recipe: Recipe, record: RunRecord, say: Say) -> bool:
    """Return whether the run to resume is finished; if it was killed right then, clean it up."""
    with ranks.failing_together():
        if ranks.is_first():
            bring_back(recipe.run, record, say)
    if check_run(recipe.run, record):
        return False
    if ranks.is_first():
        tidy_finished(recipe.run.out)
        kind.remove_resume_files(recipe)
    say(f"{recipe.run.out} is finished; nothing to do")
    return True


def _decide(kind: type[AnyTask], recipe: Recipe, record: RunRecord) -> tuple[AnyTask, RunRecord]:
    """Return the task, and the record with the task fields that the settings do not contain."""
    task = kind.from_training_data(recipe)
    record = replace(record, goal={name: getattr(task, name) for name in kind.underived_fields})
    check_goal(recipe.run, record)
    return task, record


def _start(task: AnyTask, recipe: Recipe, say: Say) -> Start:
    """Return the model and the tokenizer to start from."""
    with student_of(recipe, say) as started:
        start = task.start(started)
    if recipe.training.attention_dropout is not None:
        set_attention_dropout(start.model, recipe.training.attention_dropout)
    if recipe.data.prune is not None:
        check_prunable(start.model, recipe.run)
    if recipe.training.head_learning_rate is not None and not trains_head(start.model):
        say(f"--head-learning-rate has no effect: train {task.name} trains no head")
    return start


def dev_rule(recipe: Recipe) -> LongText:
    """Return how long texts of the development data are handled.

    The rule is the one for the training data, so that the best step is chosen on the same input.
    Without one, it is the rule for predictions.
    """
    rule: LongText | None = getattr(recipe.data, "long_text", None)  # parallel data has none
    return rule or PredictSettings().long_text


def _dev(
    task: AnyTask, recipe: Recipe, start: Start, folder: Path
) -> Callable[[], Iterator[Any]] | None:
    """Return a function that yields the scorable development records; None without such data.

    Encode all records once, so that errors in them show before training starts.

    Raises:
        UserError: a record is invalid; the error names the file and line.
    """
    if not recipe.data.dev:
        return None
    read = task.labelled_records(recipe.data.dev, recipe.columns, start, folder)
    fit = LengthLimit(max_length=start.max_length, long_text=dev_rule(recipe))

    def records() -> Iterator[Any]:
        # `Task.check_files` has reported those that are dropped.
        return task.drop_unscorable(read(), lambda line: None)

    def checked(share: Iterator[Any]) -> Iterator[None]:
        for _ in task.encode(share, start.tokenizer, fit, labelled=True):
            yield None

    for _ in counted(ranks.joined(checked, records()), "texts of --dev checked"):
        pass
    return records


def _examples(
    task: AnyTask, recipe: Recipe, start: Start, folder: Path, say: Say
) -> tuple[AnyTask, Start, Examples | Stream]:
    """Prepare the training data, or the stream that reads it."""
    training, by_length = recipe.training, _groups_by_length(task, recipe, start)
    # A student that learns hidden states needs those of all tokens, padding included.
    unpadded = start.model.trains_packed and not recipe.teaching.hidden_weight
    max_padding = math.inf if by_length or unpadded else MAX_PADDING
    if task.streams(recipe):
        task, start, shards = task.shards(recipe, start, say)
        read = Stream(
            task, start.tokenizer, shards, training, by_length=by_length, max_padding=max_padding
        )
        return task, start, read
    with ranks.first_before_others():
        task, start, store_of = task.stores(recipe, start, folder, say)
    examples = Examples(
        task, start.tokenizer, store_of, training, by_length=by_length, max_padding=max_padding
    )
    return task, start, examples


def _groups_by_length(task: AnyTask, recipe: Recipe, start: Start) -> bool:
    """Return whether to group items of similar length into a step."""
    if recipe.training.group_by_length is not None:
        return recipe.training.group_by_length
    # Pairs of similar length on both sides are alike in other ways too: a step would teach less.
    return not (task.has_target_tokens and start.model.trains_packed)


def _distillation(
    task: AnyTask, recipe: Recipe, start: Start, device: torch.device
) -> Distillation | None:
    """Return the distillation, if there is a teacher whose scores are the targets."""
    if recipe.teaching.teacher is None or task.teacher_output in (None, "texts"):
        return None
    precision = choose_precision(recipe.training.precision, device)
    return distillation(task, recipe.teaching, start, device, precision.dtype)


def check_evaluations(recipe: Recipe, metrics: tuple[str, ...]) -> None:
    """Reject a metric that the task does not have, and evaluation options without --dev.

    Raises:
        UserError: an option is invalid; the error names it.
    """
    training = recipe.training
    if training.metric is not None:
        check_known("--metric", training.metric, metrics)
    if recipe.data.dev is None:
        why = "is for evaluations on --dev: give --dev too"
        refuse_options(training, ("evaluate_every", "metric", "patience"), why)


def _score(
    score: Score, start: Start, record: RunRecord, dev: Callable[[], Iterable[Any]]
) -> dict[str, Any]:
    return score(start, record, dev())


def _head_multiplier(start: Start, total_steps: int) -> float:
    """Return the learning rate of a fresh head as a multiple of that of the encoder.

    Below the default minimum of steps of fine-tuning, a multiplier above 1 grows in inverse
    proportion to the steps, up to `HEAD_RATE`.
    """
    multiplier = start.head_lr_multiplier
    if multiplier <= 1:
        return multiplier
    return min(HEAD_RATE, multiplier * max(1.0, FINE_TUNING.min_steps / total_steps))


def _run(
    wrapped: Trained,
    lessons: Distillation | None,
    task: AnyTask,
    recipe: Recipe,
    start: Start,
    examples: Examples | Stream,
    record: RunRecord,
    score: Callable[[], dict[str, Any]] | None,
    say: Say,
) -> Run:
    """Assemble the run: model, optimizer, data, schedule and precision."""
    training, model, head_rate = recipe.training, wrapped.model, recipe.training.head_learning_rate
    defaults = training.defaults(from_scratch=recipe.from_scratch)
    rate = training.learning_rate or defaults.rate(start.model.config)
    device = next(model.parameters()).device
    precision = choose_precision(training.precision, device)
    total_steps = training.total_steps(examples.steps_per_epoch, defaults)
    work = TrainingSetup(
        model=model,
        optimizer=adamw(
            model,
            learning_rate=rate,
            head=model.fresh_head_parameters() if head_rate is None else model.head_parameters(),
            head_learning_rate=head_rate
            or rate * (1 if recipe.from_scratch else _head_multiplier(start, total_steps)),
            weight_decay=training.weight_decay,
            target_scale=start.target_scale,
            betas=task.betas,
            epsilon=task.epsilon,
        ),
        plan_epoch=examples.plan,
        load_batch=partial(_fetch, examples),
        loss=(lessons or task).loss,
        loss_divisor=(lessons or task).loss_divisor,
        before_backward=wrapped.exchange,
        lr_factor=schedule(training.schedule, total_steps=total_steps, warmup=training.warmup),
        epoch_of=examples.epoch_of if isinstance(examples, Stream) else int,
        device=device,
        can_split=not task.in_batch_loss,
    )
    if training.batch_tokens == "auto" and isinstance(examples, Examples):
        _choose_batch_tokens(work, examples, precision, say)
    return Run(
        folder=recipe.run.out,
        work=work,
        record=record,
        settings=training,
        total_steps=total_steps,
        steps_per_epoch=examples.steps_per_epoch,
        by_length=examples.by_length,
        stream=examples if isinstance(examples, Stream) else None,
        precision=precision,
        score=score,
        metric=training.metric or task.metrics()[0],
        save=partial(_save, task, start, record),
        say=say,
        scaler=torch.amp.GradScaler(device.type) if precision.dtype is torch.float16 else None,
        whole=wrapped.whole,
        average=None if training.ema is None else MovingAverage(model, training.ema),
    )


def _choose_batch_tokens(
    work: TrainingSetup, examples: Examples, precision: Precision, say: Say
) -> None:
    """Measure with the longest item how many tokens fit into memory.

    Raises:
        UserError: torch shards or replicates the model, so it would gather weights in between.
    """
    if work.before_backward is not None:
        raise UserError(
            "--batch-tokens auto works neither with --shard nor with several processes on GPUs: "
            "give a number"
        )
    batch = _fetch(examples, examples.longest(), 0)
    forward: Callable[..., Any] = work.model
    if precision.mixed and work.before_backward is None:
        forward = NarrowWeights(work.model, precision.dtype).forward
    examples.batch_tokens = tokens_that_fit(
        work.model,
        lambda: work.loss(forward, batch.to(work.device)),
        batch.num_positions,
        work.device,
    )
    say(f"--batch-tokens auto: {examples.batch_tokens:,} tokens at once")


def _fetch(examples: Examples | Stream, items: Positions, epoch: int) -> Batch:
    """Return the batch of this rank's share of the items."""
    items, copies = ranks.part(items)
    return replace(examples.fetch(items, epoch), replicas=copies)


def _save(task: AnyTask, start: Start, record: RunRecord, folder: Path, trained: str) -> None:
    """Write everything that predictions need, and the model card."""
    start.model.save_pretrained(folder)
    start.tokenizer.save_pretrained(folder)
    purpose = task.model_card()
    write_card(folder, record, purpose=purpose, example=task.example, trained=trained)
    task.write_extra_files(start, folder)

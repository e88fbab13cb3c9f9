"""``heedful train``: records in, a run folder out."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from heedful.batches import (
    Batch,
    Draw,
    Example,
    Fitted,
    Positions,
    Step,
    Store,
    fingerprint,
    plan_epoch,
    write_store,
)
from heedful.checkpoints.runs import RunRecord
from heedful.commands.card import write_card
from heedful.commands.evaluate import score_records
from heedful.commands.prune import prune
from heedful.doctor import versions
from heedful.errors import UserError, unknown_name
from heedful.models import BertModel
from heedful.models.pretrained import initialise, save_pretrained
from heedful.predictor import Predictor, check_max_length
from heedful.settings import (
    HEAD_RATE,
    ColumnSettings,
    DataSettings,
    PredictSettings,
    TrainSettings,
)
from heedful.tasks import Fit, Task, read_files, task_named
from heedful.tokens import BertTokenizer
from heedful.training.device import (
    Precision,
    choose_device,
    choose_precision,
    keep_big_buffers,
    return_big_buffers,
)
from heedful.training.fit import Job, Outcome, discarded_unless_prepared, fit, open_run
from heedful.training.loop import Work
from heedful.training.optimize import adamw
from heedful.training.progress import counted
from heedful.training.schedule import schedule


def train(
    task_name: str,
    data: DataSettings,
    own: Any,
    columns: ColumnSettings,
    training: TrainSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome | None:
    """Fine-tune a model for a task and leave a run folder.

    Args:
        task_name: a name in ``heedful.tasks.TASKS``.
        data: files and model.
        own: the settings that the task alone has.
        columns: where texts and labels stand in the files, for tasks that read tables.
        training: how to train.
        out: the run folder.
        resume: go on with the run in ``out``.
        overwrite: replace the run in ``out``.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where ``resume`` found the run finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    task = task_named(task_name)
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    if training.gradient_checkpointing:  # which says that memory is dearer than time
        return_big_buffers()
    else:
        keep_big_buffers()
    read = partial(read_files, task, columns=columns, labelled=True)
    goal = task.goal_of(read(data.train), columns, own)
    metric = chosen_metric(training.metric, task.metrics(goal))
    check_evaluations(training, data.dev)
    for item in read(data.dev) if data.dev else ():  # now, not after the first epoch
        task.check(item, goal)

    torch.manual_seed(training.seed)
    tokenizer = BertTokenizer.from_pretrained(data.model, revision=data.revision)
    model = task.build(goal, data).to(device)
    if data.fresh_pooler:
        renew_pooler(model)
    positions = task.positions(model)
    max_length = check_max_length(data.max_length or positions, positions)
    record = RunRecord(
        task=task.name,
        goal=plain_values(asdict(goal)),
        max_length=max_length,
        settings=plain_values(asdict(data) | asdict(own) | asdict(columns) | asdict(training)),
        data=[asdict(print_) for print_ in fingerprint(data.train)],
        versions=versions(),
    )
    if not open_run(out, record, resume=resume, overwrite=overwrite):
        say(f"{out} is finished; nothing to do")
        return None

    store_folder = out / ".data.partial"
    try:
        with discarded_unless_prepared(out):
            store_folder.mkdir()
            cut = _Cut()
            fit_to = Fit(max_length=max_length, rule=data.long_text or task.long_text(goal))
            encoded = task.encode(read(data.train), goal, tokenizer, fit_to, True)
            examples = cut.examples(counted(encoded, "texts tokenized"))
            write_store(store_folder / "train.arrow", examples)
            feed = StoreFeed(task, goal, tokenizer, Store(store_folder / "train.arrow"), training)
            if data.prune is not None:
                done = prune(
                    model,
                    data.prune,
                    out,
                    task=task,
                    goal=goal,
                    items=feed.items,
                    fetch=lambda item: feed.fetch(np.array([item]), 0).to(device),
                )
                say(done)
        if cut.texts:
            say(
                f"{cut.texts:,} texts are longer than {max_length} tokens: {cut.tokens:,} tokens "
                "are not learnt from; --long-text and --max-length decide that"
            )
        trainee = Trainee(
            task=task,
            goal=goal,
            model=model,
            tokenizer=tokenizer,
            record=record,
            device=device,
            precision=precision,
        )
        dev = data.dev
        return carry_out(
            trainee,
            feed,
            training,
            out,
            optimizer=adamw(
                model,
                learning_rate=training.learning_rate,
                head_learning_rate=training.head_learning_rate
                or HEAD_RATE * training.learning_rate,
                weight_decay=training.weight_decay,
            ),
            score=None if dev is None else lambda predictor: score_records(predictor, read(dev)),
            metric=metric,
            say=say,
        )
    finally:
        shutil.rmtree(store_folder, ignore_errors=True)


def renew_pooler(model: nn.Module) -> None:
    """Draw the weights of a model's pooler anew.

    Raises:
        UserError: it has none.
    """
    for part in model.modules():
        if isinstance(part, BertModel) and part.pooler is not None:
            return initialise(part.pooler, part.config.initializer_range)
    raise UserError("--fresh-pooler: the model of this task has no pooler; leave the option out")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    """A model that is to be trained, with all that goes with it."""

    task: Task
    goal: Any
    model: nn.Module
    tokenizer: Any
    record: RunRecord
    device: torch.device
    precision: Precision


class Feed(Protocol):
    """Training data as batches."""

    @property
    def items(self) -> int:
        """How many items an epoch has."""

    def plan(self, epoch: int) -> Sequence[Step]:
        """Plan the steps of an epoch."""

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some items."""


def carry_out(
    trainee: Trainee,
    feed: Feed,
    training: TrainSettings,
    out: Path,
    *,
    optimizer: torch.optim.Optimizer,
    score: Callable[[Predictor], dict[str, Any]] | None,
    metric: str,
    say: Callable[[str], None],
    beam: int = PredictSettings().beam,
) -> Outcome:
    """Train a model, from the newest checkpoint if there is one, and finish its run folder.

    Args:
        trainee: the model.
        feed: what it learns from.
        training: how to train.
        out: the run folder, opened.
        optimizer: changes its weights.
        score: evaluates the model as it is, given as a predictor; None where nothing does.
        metric: key of the score that picks the best step.
        say: takes each line meant for the user.
        beam: texts kept while one is written, in evaluations.

    Raises:
        UserError: training diverged; see `heedful.training.fit.fit`.
    """
    task, goal, model, precision = trainee.task, trainee.goal, trainee.model, trainee.precision
    steps_per_epoch = -(-feed.items // training.batch_size)
    total_steps = training.steps or training.epochs * steps_per_epoch
    for part in model.modules():
        if isinstance(part, BertModel):
            part.gradient_checkpointing = training.gradient_checkpointing

    def evaluate() -> dict[str, Any]:
        assert score is not None
        computing = PredictSettings(
            precision=training.precision,
            device=training.device,
            batch_tokens=training.batch_tokens,
            beam=beam,
        )
        return score(Predictor(model, trainee.tokenizer, trainee.record, computing))

    def save(folder: Path) -> None:
        save_pretrained(model, folder)
        trainee.tokenizer.save_pretrained(folder)
        write_card(folder, trainee.record, task.card(goal))
        task.write_beside(goal, model, trainee.record.max_length, folder)

    work = Work(
        model=model,
        optimizer=optimizer,
        plan=feed.plan,
        fetch=lambda items, epoch: feed.fetch(items, epoch).to(trainee.device),
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
        score=None if score is None else evaluate,
        metric=metric,
        save=save,
        say=say,
    )
    say(task.card(goal))
    say(
        f"{feed.items:,} examples, {total_steps:,} step{'s'[: total_steps != 1]} of "
        f"{training.batch_size}, "
        f"{str(precision.dtype).removeprefix('torch.')} on {trainee.device} ({precision.reason})"
    )
    return fit(job, training, out)


class StoreFeed:
    """The stored examples as items, planned and fetched.

    Args:
        task: what they are learnt for.
        goal: what it learns.
        tokenizer: as for the task.
        store: the examples.
        training: how to train.
        two_sided: whether an item's labels, too, are tokens that are padded.
    """

    def __init__(
        self,
        task: Task,
        goal: Any,
        tokenizer: Any,
        store: Store,
        training: TrainSettings,
        *,
        two_sided: bool = False,
    ) -> None:
        self._task, self._goal, self._tokenizer = task, goal, tokenizer
        self._store, self._training = store, training
        self._per_item = task.per_item(goal)
        # The examples of an item are padded to the longest of them.
        longest = store.lengths.reshape(-1, self._per_item).max(1)  # (items,)
        self._sizes = longest.astype(np.int64) * self._per_item
        if two_sided:
            self._sizes = np.stack([self._sizes, store.label_lengths], axis=1)  # (items, 2)

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self._sizes)

    def plan(self, epoch: int) -> list[Step]:
        """Plan the steps of an epoch."""
        training = self._training
        whole = self._task.whole_batch
        return plan_epoch(
            self._sizes,
            batch_size=training.batch_size,
            batch_tokens=int(self._sizes.max()) * training.batch_size
            if whole
            else training.batch_tokens,
            seed=training.seed,
            epoch=epoch,
        )

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some items."""
        rows = (items[:, None] * self._per_item + np.arange(self._per_item)).ravel()
        draw = Draw(seed=self._training.seed, epoch=epoch, rows=rows)
        examples = [self._store[int(row)] for row in rows]
        return self._task.batch_of(examples, self._goal, self._tokenizer, draw)


@dataclass(slots=True)
class _Cut:
    """Counts what a rule for long texts leaves out."""

    texts: int = 0
    tokens: int = 0

    def examples(self, fitted: Iterable[Fitted[Example]]) -> Iterator[Example]:
        for text in fitted:
            self.texts += text.tokens_used < text.tokens_total
            self.tokens += text.tokens_total - text.tokens_used
            yield from text.pieces


def chosen_metric(given: str | None, allowed: tuple[str, ...]) -> str:
    """Check the metric that picks the best step."""
    if given is not None and given not in allowed:
        raise unknown_name("--metric", given, allowed)
    return given or allowed[0]


def check_evaluations(training: TrainSettings, dev: Sequence[Path] | None) -> None:
    """Refuse options of evaluations where there are none.

    Raises:
        UserError: one is given without ``--dev``.
    """
    for name in ("evaluate_every", "metric", "patience"):
        if dev is None and getattr(training, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for evaluations on --dev: give --dev too")


def plain_values(settings: dict[str, Any]) -> dict[str, Any]:
    """Make settings fit for JSON: paths as text."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: plain(value) for key, value in settings.items()}

"""``heedful train``: records in, a run folder out."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from heedful.batches import Example, Store, write_store
from heedful.checkpoints.opening import data_folder, discarded_unless_prepared
from heedful.commands.feed import StoreFeed
from heedful.commands.prune import prune
from heedful.commands.trainee import (
    Say,
    Trainee,
    carry_out,
    check_evaluations,
    open_training,
)
from heedful.errors import UserError
from heedful.models.model import Model
from heedful.models.pretrained import initialise
from heedful.predictor import check_max_length
from heedful.settings import (
    HEAD_RATE,
    ColumnSettings,
    DataSettings,
    LongText,
    RunSettings,
    TrainSettings,
)
from heedful.tasks import Fit, read_files, task_named
from heedful.tokens import load_encoder_tokenizer
from heedful.training.device import prepare_device
from heedful.training.fit import Outcome
from heedful.training.optimize import adamw
from heedful.training.progress import counted


def train(
    task_name: str,
    data: DataSettings,
    own: Any,
    columns: ColumnSettings,
    training: TrainSettings,
    place: RunSettings,
    *,
    say: Say = lambda line: None,
) -> Outcome | None:
    """Fine-tune a model for a task and leave a run folder.

    Args:
        task_name: a name in ``heedful.tasks.TASKS``.
        data: files and model.
        own: the settings that the task alone has.
        columns: where texts and labels stand in the files, for tasks that read tables.
        training: how to train.
        place: the run folder.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where the run is to go on but is finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    task = task_named(task_name)
    device = prepare_device(training)
    read = partial(read_files, task, columns=columns, labelled=True)
    goal = task.goal_of(read(data.train), columns, own)
    check_evaluations(training, data.dev, task.metrics(goal))
    for item in read(data.dev) if data.dev else ():  # now, not after the first epoch
        task.check(item, goal)

    torch.manual_seed(training.seed)
    tokenizer = load_encoder_tokenizer(data.model, data.revision)
    model = task.build(goal, data).to(device)
    if data.fresh_pooler:
        renew_pooler(model)
    most = model.max_positions
    max_length = check_max_length(data.max_length or most, most)
    settings = (own, columns, training)
    record = open_training(task, goal, max_length, data, settings, place, say)
    if record is None:
        return None
    trainee = Trainee(task=task, goal=goal, model=model, tokenizer=tokenizer, record=record)
    with data_folder(place.out) as folder:
        with discarded_unless_prepared(place.out):
            path, records = folder / "train.arrow", read(data.train)
            store = _stored(path, records, trainee, data.long_text, say)
            feed = StoreFeed(task, goal, tokenizer, store, training)
            if data.prune is not None:
                say(prune(trainee, feed, data.prune, place.out))
        rate = training.learning_rate
        optimizer = adamw(
            model,
            learning_rate=rate,
            head_learning_rate=training.head_learning_rate or HEAD_RATE * rate,
            weight_decay=training.weight_decay,
        )
        dev = partial(read, data.dev) if data.dev else None
        return carry_out(trainee, feed, training, place.out, optimizer, dev, say)


def renew_pooler(model: Model) -> None:
    """Draw the weights of a model's pooler anew.

    Raises:
        UserError: it has none.
    """
    pooler = getattr(model.body, "pooler", None)
    if pooler is None:
        raise UserError(
            "--fresh-pooler: the model of this task has no pooler; leave the option out"
        )
    initialise(pooler, model.config.initializer_range)


def _stored(
    path: Path, records: Iterator[Any], trainee: Trainee, rule: LongText | None, say: Say
) -> Store:
    """Write a file of the examples of records, and say what the rule for long texts leaves out."""
    task, goal, max_length = trainee.task, trainee.goal, trainee.record.max_length
    fit_to = Fit(max_length=max_length, rule=rule or task.long_text(goal))
    texts = tokens = 0

    def examples() -> Iterator[Example]:
        nonlocal texts, tokens
        encoded = task.encode(records, goal, trainee.tokenizer, fit_to, True)
        for text in counted(encoded, "texts tokenized"):
            texts += text.tokens_used < text.tokens_total
            tokens += text.tokens_total - text.tokens_used
            yield from text.pieces

    write_store(path, examples())
    if texts:
        say(
            f"{texts:,} texts are longer than {max_length} tokens: {tokens:,} tokens are not "
            "learnt from; --long-text and --max-length decide that"
        )
    return Store(path)

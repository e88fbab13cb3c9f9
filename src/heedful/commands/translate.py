"""``heedful train translate``: texts with their translations in, a run folder out."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from heedful.batches import Example, Store, write_store
from heedful.checkpoints.opening import data_folder, discarded_unless_prepared
from heedful.commands.evaluate import SAMPLE
from heedful.commands.feed import StoreFeed
from heedful.commands.trainee import (
    Say,
    Trainee,
    carry_out,
    check_evaluations,
    open_training,
    plain_values,
)
from heedful.errors import UserError
from heedful.files import new_folder
from heedful.models.model import Model
from heedful.predictor import check_max_length
from heedful.reading import Record
from heedful.reading.parallel import Cleaning
from heedful.settings import (
    ColumnSettings,
    ParallelSettings,
    RunSettings,
    TranslateSettings,
    TranslateTrainSettings,
)
from heedful.tasks import read_files, translator
from heedful.tasks import translate as task
from heedful.tokens import TranslationTokenizer
from heedful.tokens.learning import count_spaced, learn_translation
from heedful.training.device import prepare_device
from heedful.training.fit import Outcome
from heedful.training.optimize import adamw
from heedful.training.progress import counted

_TOGETHER = 1024
_VOCABULARY = "vocabulary"
"""Folder of a run that keeps what was learnt first, until the run is finished."""


def translate(
    data: ParallelSettings,
    own: TranslateSettings,
    columns: ColumnSettings,
    training: TranslateTrainSettings,
    place: RunSettings,
    *,
    say: Say = lambda line: None,
) -> Outcome | None:
    """Train a translator on pairs of texts, from scratch or on from a run, and leave a run folder.

    Args:
        data: files, and the run to go on from.
        own: what a model from scratch looks like, and which pairs are learnt from.
        columns: where texts and translations stand in the files, where those are tables.
        training: how to train.
        place: the run folder.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where the run is to go on but is finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    _check_options(data, own, training)
    device = prepare_device(training)
    read = partial(read_files, task.TASK, columns=columns, labelled=True)
    goal = task.goal_of(counted(read(data.train), "pairs read"), columns, own)
    check_evaluations(training, data.dev, task.metrics(goal))
    if data.dev is not None:
        _check_dev(read(data.dev), goal, say)
    settings = (own, columns, training)
    record = open_training(task.TASK, goal, data.max_length, data, settings, place, say)
    if record is None:
        return None

    with data_folder(place.out) as folder:
        with discarded_unless_prepared(place.out):
            tokenizer = _tokenizer(data, own, read, place.out / _VOCABULARY)
            torch.manual_seed(training.seed)
            model = _model(data, own, goal, tokenizer).to(device)
            most = check_max_length(data.max_length, model.max_positions)
            cleaning = Cleaning(max_tokens=most - 1, max_ratio=own.max_ratio)
            pairs = task.learnable(counted(read(data.train), "pairs tokenized"), tokenizer)
            store = _stored(folder / "train.arrow", pairs, cleaning, say)
        # What a run has seen decides what it is given at once, and how much it may write.
        goal = replace(goal, longest=int(store.label_lengths.max()) * 3 // 2)
        longest = max(int(store.lengths.max()), 8)
        record = replace(record, goal=plain_values(asdict(goal)), max_length=longest)
        trainee = Trainee(
            task=task.TASK, goal=goal, model=model, tokenizer=tokenizer, record=record
        )
        feed = StoreFeed(task.TASK, goal, tokenizer, store, training, two_sided=True)
        optimizer = adamw(
            model,
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
            # Vaswani et al. 2017, section 5.3.
            betas=(0.9, 0.98),
            epsilon=1e-9,
        )
        dev = partial(read, data.dev) if data.dev else None
        outcome = carry_out(trainee, feed, training, place.out, optimizer, dev, say, beam=1)
    shutil.rmtree(place.out / _VOCABULARY, ignore_errors=True)
    return outcome


def _check_options(
    data: ParallelSettings, own: TranslateSettings, training: TranslateTrainSettings
) -> None:
    """Refuse options that would change nothing, and sizes of a model that has its own.

    Raises:
        UserError: naming the option.
    """
    if training.head_learning_rate is not None:
        raise UserError("--head-learning-rate: no head stands on a translator; leave it out")
    if training.gradient_checkpointing:
        raise UserError(
            "--gradient-checkpointing: lower --batch-tokens to save a translator's memory"
        )
    if data.model is None:
        return
    for item in fields(TranslateSettings):
        if item.name != "max_ratio" and getattr(own, item.name) != item.default:
            option = "--" + item.name.replace("_", "-")
            raise UserError(f"{option} is for a model from scratch: leave it out, or --model")


def _check_dev(records: Iterator[Record], goal: task.Goal, say: Say) -> None:
    sample = list(islice(records, SAMPLE))
    if line := task.doubt(sample, goal):
        say(f"--dev: {line}")
    for record in (*sample, *records):
        task.check(record, goal)


def _tokenizer(
    data: ParallelSettings,
    own: TranslateSettings,
    read: Callable[[list[Path]], Iterator[Record]],
    kept: Path,
) -> TranslationTokenizer:
    """Load the tokenizer of the run to go on from, or learn one and keep it for a resumed run."""
    if data.model is not None:
        return TranslationTokenizer.from_pretrained(data.model, revision=data.revision)
    if not kept.is_dir():
        source: Counter[str] = Counter()
        target: Counter[str] = Counter()
        records = counted(read(data.train), "pairs counted")
        while chunk := list(islice(records, _TOGETHER)):
            source.update(count_spaced(record.text for record in chunk))
            target.update(count_spaced(record.text_pair or "" for record in chunk))
        learnt = learn_translation(
            source, target, size=own.vocab_size, separate=own.separate_vocabularies
        )
        with new_folder(kept) as folder:
            learnt.save_pretrained(folder)
    return TranslationTokenizer.from_pretrained(kept)


def _model(
    data: ParallelSettings,
    own: TranslateSettings,
    goal: task.Goal,
    tokenizer: TranslationTokenizer,
) -> Model:
    """Make a model, or load the one to go on from."""
    if data.model is None:
        return translator.new_model(own, tokenizer, dropout=data.dropout)
    return task.build(goal, data)


def _stored(
    path: Path, pairs: Iterator[tuple[Record, Example]], cleaning: Cleaning, say: Say
) -> Store:
    """Write a file of the pairs that are worth learning from, and say what is left out.

    Raises:
        UserError: all of them are.
    """
    write_store(
        path,
        (
            example
            for record, example in pairs
            if cleaning.keeps(record, len(example.ids) - 1, len(example.labels) - 1)
        ),
    )
    if report := cleaning.report():
        say(report)
    store = Store(path)
    if not len(store):
        raise UserError("no pair is left to learn from")
    return store

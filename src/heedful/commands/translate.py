"""``heedful train translate``: texts with their translations in, a run folder out."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from heedful.batches import Example, Record, Store, fingerprint, write_store
from heedful.batches.parallel import Cleaning
from heedful.checkpoints.runs import RunRecord
from heedful.commands.evaluate import SAMPLE, score_records
from heedful.commands.train import (
    StoreFeed,
    Trainee,
    carry_out,
    check_evaluations,
    chosen_metric,
    plain_values,
)
from heedful.doctor import versions
from heedful.errors import UserError
from heedful.files import new_folder
from heedful.predictor import check_max_length
from heedful.settings import (
    ColumnSettings,
    ParallelSettings,
    TranslateSettings,
    TranslateTrainSettings,
)
from heedful.tasks import read_files, translator
from heedful.tasks import translate as task
from heedful.tokens import TranslationTokenizer
from heedful.tokens.learning import count_spaced, learn_translation
from heedful.training.device import choose_device, choose_precision, keep_big_buffers
from heedful.training.fit import Outcome, discarded_unless_prepared, open_run
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
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome | None:
    """Train a translator on pairs of texts, from scratch or on from a run, and leave a run folder.

    Args:
        data: files, and the run to go on from.
        own: what a model from scratch looks like, and which pairs are learnt from.
        columns: where texts and translations stand in the files, where those are tables.
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
    check_evaluations(training, data.dev)
    _check_options(data, own, training)
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    keep_big_buffers()
    read = partial(read_files, task.TASK, columns=columns, labelled=True)
    goal = task.goal_of(counted(read(data.train), "pairs read"), columns, own)
    metric = chosen_metric(training.metric, task.metrics(goal))
    if data.dev is not None:
        _check_dev(read(data.dev), goal, say)
    record = RunRecord(
        task=task.TASK.name,
        goal=plain_values(asdict(goal)),
        max_length=data.max_length,
        settings=plain_values(asdict(data) | asdict(own) | asdict(columns) | asdict(training)),
        data=[asdict(print_) for print_ in fingerprint(data.train)],
        versions=versions(),
    )
    if not open_run(out, record, resume=resume, overwrite=overwrite):
        say(f"{out} is finished; nothing to do")
        return None

    folder = out / ".data.partial"
    try:
        with discarded_unless_prepared(out):
            folder.mkdir()
            tokenizer = _tokenizer(data, own, read, out / _VOCABULARY)
            torch.manual_seed(training.seed)
            model = (
                translator.new_model(own, tokenizer, dropout=data.dropout)
                if data.model is None
                else task.build(goal, data)
            ).to(device)
            cleaning = Cleaning(
                max_tokens=check_max_length(data.max_length, translator.positions(model)) - 1,
                max_ratio=own.max_ratio,
            )
            pairs = task.learnable(counted(read(data.train), "pairs tokenized"), tokenizer)
            write_store(folder / "train.arrow", _clean(pairs, cleaning))
            store = Store(folder / "train.arrow")
            if report := cleaning.report():
                say(report)
            if not len(store):
                raise UserError("no pair is left to learn from")
        # What a run has seen decides what it is given at once, and how much it may write.
        goal = replace(goal, longest=int(store.label_lengths.max()) * 3 // 2)
        trainee = Trainee(
            task=task.TASK,
            goal=goal,
            model=model,
            tokenizer=tokenizer,
            record=replace(
                record,
                goal=plain_values(asdict(goal)),
                max_length=max(int(store.lengths.max()), 8),
            ),
            device=device,
            precision=precision,
        )
        dev = data.dev
        outcome = carry_out(
            trainee,
            StoreFeed(task.TASK, goal, tokenizer, store, training, two_sided=True),
            training,
            out,
            optimizer=adamw(
                model,
                learning_rate=training.learning_rate,
                weight_decay=training.weight_decay,
                # Vaswani et al. 2017, section 5.3.
                betas=(0.9, 0.98),
                epsilon=1e-9,
            ),
            score=None if dev is None else lambda predictor: score_records(predictor, read(dev)),
            metric=metric,
            say=say,
            beam=1,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(out / _VOCABULARY, ignore_errors=True)
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


def _check_dev(records: Iterator[Record], goal: task.Goal, say: Callable[[str], None]) -> None:
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


def _clean(pairs: Iterable[tuple[Record, Example]], cleaning: Cleaning) -> Iterator[Example]:
    for record, example in pairs:
        if cleaning.keeps(record, len(example.ids) - 1, len(example.labels) - 1):
            yield example

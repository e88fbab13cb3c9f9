"""``heedful train pretrain``: running text in, a run folder out."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from heedful.batches import (
    Batch,
    Draw,
    Positions,
    Step,
    Store,
    fingerprint,
    plan_epoch,
    write_store,
)
from heedful.batches.corpus import Corpus
from heedful.batches.masking import mask_rule
from heedful.batches.sentence_pairs import RANDOM
from heedful.checkpoints.runs import RunRecord
from heedful.commands.corpus import check_documents, open_corpus, unknown_share
from heedful.commands.evaluate import score_records
from heedful.commands.train import (
    Trainee,
    carry_out,
    check_evaluations,
    chosen_metric,
    plain_values,
)
from heedful.doctor import versions
from heedful.errors import UserError
from heedful.models import BertConfig
from heedful.predictor import check_max_length
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    PretrainSettings,
    TrainSettings,
    in_range,
)
from heedful.tasks import pretrain as task
from heedful.tokens import BertTokenizer
from heedful.training.device import (
    choose_device,
    choose_precision,
    keep_big_buffers,
    return_big_buffers,
)
from heedful.training.fit import Outcome, open_run
from heedful.training.optimize import adamw
from heedful.training.progress import counted

MAX_LENGTH = 128
"""Tokens of a sequence unless told otherwise, as in nine tenths of the original's steps."""

MANY_UNKNOWN, MANY_RANDOM = 0.02, 0.6
"""Shares of unknown tokens, and of random pairs, from which on the user is told."""


def pretrain(
    data: DataSettings,
    own: PretrainSettings,
    training: TrainSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome | None:
    """Pre-train a model on plain text, from scratch or from another model, and leave a run folder.

    Args:
        data: files, and the model to go on from.
        own: what is learnt, and what a model from scratch looks like.
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
    data, goal = _checked(data, own)
    metric = chosen_metric(training.metric, task.metrics(goal))
    device = choose_device(training.device)
    precision = choose_precision(training.precision, device)
    if training.gradient_checkpointing:  # which says that memory is dearer than time
        return_big_buffers()
    else:
        keep_big_buffers()
    torch.manual_seed(training.seed)
    tokenizer = BertTokenizer.from_pretrained(data.model, revision=data.revision)
    mask_rule(tokenizer, most=None)  # so that one without a mask is refused at once
    for paths in (data.train, data.dev or []):
        if paths:
            check_documents(paths, goal)
    model = task.build(goal, data).to(device)
    assert isinstance(model.config, BertConfig)
    positions = model.config.max_position_embeddings
    max_length = check_max_length(data.max_length or min(MAX_LENGTH, positions), positions)
    record = RunRecord(
        task=task.TASK.name,
        goal=plain_values(asdict(goal)),
        max_length=max_length,
        settings=plain_values(asdict(data) | asdict(own) | asdict(training)),
        data=[asdict(print_) for print_ in fingerprint(data.train)],
        versions=versions(),
    )
    if not open_run(out, record, resume=resume, overwrite=overwrite):
        say(f"{out} is finished; nothing to do")
        return None

    kept = own.corpus or out / "corpus"
    corpus = open_corpus(data.train, goal, tokenizer, kept, workers=own.workers)
    dev = data.dev and open_corpus(data.dev, goal, tokenizer, kept, workers=own.workers)
    unknown = unknown_share(corpus, tokenizer)
    beyond = f", {unknown:.0%} of them unknown to the vocabulary" if unknown > MANY_UNKNOWN else ""
    say(f"{len(corpus):,} documents of {corpus.tokens:,} tokens{beyond}")
    folder = out / ".data.partial"
    folder.mkdir()
    try:
        feed = _CorpusFeed(corpus, goal, tokenizer, folder, max_length, training)
        if goal.pairs and feed.random_share > MANY_RANDOM:
            say(
                f"{feed.random_share:.0%} of the pairs have a random second part, since many "
                "documents have nothing to follow their first sentence; --documents says what "
                "ends a document (gap or file suits books)"
            )
        trainee = Trainee(
            task=task.TASK,
            goal=goal,
            model=model,
            tokenizer=tokenizer,
            record=record,
            device=device,
            precision=precision,
        )
        outcome = carry_out(
            trainee,
            feed,
            training,
            out,
            optimizer=adamw(
                model,
                learning_rate=training.learning_rate,
                head_learning_rate=training.head_learning_rate,
                weight_decay=training.weight_decay,
            ),
            score=(
                None
                if not dev
                else lambda predictor: score_records(
                    predictor,
                    task.sequences(dev, goal, tokenizer, max_length=max_length, seed=0, epoch=0),
                )
            ),
            metric=metric,
            say=say,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if own.corpus is None:
        shutil.rmtree(kept)
    return outcome


def _checked(data: DataSettings, own: PretrainSettings) -> tuple[DataSettings, task.Goal]:
    """Refuse settings that mean nothing here; give what is left to decide its value."""
    if data.prune is not None:
        raise UserError("--prune takes heads out of a run of the same task; prune when fine-tuning")
    if data.fresh_pooler:
        raise UserError("--fresh-pooler is for fine-tuning what was pre-trained; leave it out")
    if data.long_text is not None:
        raise UserError("--long-text: sequences are cut from a text without loss; leave it out")
    goal = task.goal_of((), ColumnSettings(), own)
    if own.vocabulary is None:
        return data, goal
    if data.model != "minilm":
        raise UserError(
            f"--preset starts from scratch and --model {data.model} goes on: give one of them"
        )
    max_length = data.max_length or MAX_LENGTH
    in_range("max_length", max_length, 8, 10**6, what="a whole number of at least 8")
    return (
        replace(data, model=own.vocabulary, max_length=max_length),
        replace(goal, positions=own.positions or max_length),
    )


class _CorpusFeed:
    """Sequences cut anew from the corpus for each epoch, kept in a file while it lasts."""

    def __init__(
        self,
        corpus: Corpus,
        goal: task.Goal,
        tokenizer: BertTokenizer,
        folder: Path,
        max_length: int,
        training: TrainSettings,
    ) -> None:
        self._corpus, self._goal, self._tokenizer = corpus, goal, tokenizer
        self._folder, self._max_length, self._training = folder, max_length, training
        self._epoch = 0
        self._store = self._cut(0)
        self._items = len(self._store)

    @property
    def items(self) -> int:
        """How many sequences the first epoch has; the others have about as many."""
        return self._items

    @property
    def random_share(self) -> float:
        """The share of an epoch's pairs whose second part does not follow the first."""
        return float(np.mean(self._store.labels == RANDOM))

    def plan(self, epoch: int) -> list[Step]:
        """Cut an epoch's sequences and plan its steps."""
        if epoch != self._epoch:
            self._epoch, self._store = epoch, self._cut(epoch)
        training = self._training
        return plan_epoch(
            self._store.lengths,
            batch_size=training.batch_size,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
            epoch=epoch,
        )

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some sequences, other tokens hidden in each epoch."""
        assert epoch == self._epoch
        draw = Draw(seed=self._training.seed, epoch=epoch, rows=np.asarray(items))
        examples = [self._store[int(item)] for item in items]
        return task.batch_of(examples, self._goal, self._tokenizer, draw)

    def _cut(self, epoch: int) -> Store:
        path = self._folder / "sequences.arrow"
        found = task.sequences(
            self._corpus,
            self._goal,
            self._tokenizer,
            max_length=self._max_length,
            seed=self._training.seed,
            epoch=epoch,
        )
        write_store(path, counted(found, "sequences cut"))
        return Store(path)

"""``heedful train pretrain``: running text in, a run folder out."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from heedful.batches import Batch, Example, Positions, Step, Store, write_store
from heedful.batches.masking import mask_rule
from heedful.batches.sentence_pairs import RANDOM
from heedful.checkpoints.opening import data_folder
from heedful.commands.corpus import check_documents, open_corpus, unknown_share
from heedful.commands.feed import StoreFeed
from heedful.commands.trainee import (
    Say,
    Trainee,
    carry_out,
    check_evaluations,
    open_training,
)
from heedful.errors import UserError
from heedful.predictor import check_max_length
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    PretrainSettings,
    RunSettings,
    TrainSettings,
    in_range,
)
from heedful.tasks import pretrain as task
from heedful.tokens import load_encoder_tokenizer
from heedful.training.device import prepare_device
from heedful.training.fit import Outcome
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
    place: RunSettings,
    *,
    say: Say = lambda line: None,
) -> Outcome | None:
    """Pre-train a model on plain text, from scratch or from another model, and leave a run folder.

    Args:
        data: files, and the model to go on from.
        own: what is learnt, and what a model from scratch looks like.
        training: how to train.
        place: the run folder.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where the run is to go on but is finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    data, goal = _checked(data, own)
    check_evaluations(training, data.dev, task.metrics(goal))
    device = prepare_device(training)
    torch.manual_seed(training.seed)
    tokenizer = load_encoder_tokenizer(data.model, data.revision)
    mask_rule(tokenizer, most=None)  # so that one without a mask is refused at once
    for paths in (data.train, data.dev or []):
        if paths:
            check_documents(paths, goal)
    model = task.build(goal, data).to(device)
    most = model.max_positions
    max_length = check_max_length(data.max_length or min(MAX_LENGTH, most), most)
    record = open_training(task.TASK, goal, max_length, data, (own, training), place, say)
    if record is None:
        return None

    kept = own.corpus or place.out / "corpus"
    corpus = open_corpus(data.train, goal, tokenizer, kept, workers=own.workers)
    dev = data.dev and open_corpus(data.dev, goal, tokenizer, kept, workers=own.workers)
    unknown = unknown_share(corpus, tokenizer)
    beyond = f", {unknown:.0%} of them unknown to the vocabulary" if unknown > MANY_UNKNOWN else ""
    say(f"{len(corpus):,} documents of {corpus.tokens:,} tokens{beyond}")
    trainee = Trainee(task=task.TASK, goal=goal, model=model, tokenizer=tokenizer, record=record)
    cut = partial(task.sequences, goal=goal, tokenizer=tokenizer, max_length=max_length)
    with data_folder(place.out) as folder:
        feed = _CorpusFeed(trainee, partial(cut, corpus), folder / "sequences.arrow", training)
        if line := feed.doubt():
            say(line)
        optimizer = adamw(
            model,
            learning_rate=training.learning_rate,
            head_learning_rate=training.head_learning_rate,
            weight_decay=training.weight_decay,
        )
        scored = partial(cut, dev, seed=0, epoch=0) if dev else None
        outcome = carry_out(trainee, feed, training, place.out, optimizer, scored, say)
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
    """Sequences cut anew for each epoch, kept in a file while it lasts.

    Args:
        trainee: what learns from them.
        cut: gives the sequences of a seed and an epoch.
        path: the file.
        training: how to train.
    """

    def __init__(
        self,
        trainee: Trainee,
        cut: Callable[..., Iterator[Example]],
        path: Path,
        training: TrainSettings,
    ) -> None:
        self._trainee, self._cut, self._path, self._training = trainee, cut, path, training
        self._epoch, self._feed = 0, self._feed_of(0)
        self._items = self._feed.items

    @property
    def items(self) -> int:
        """How many sequences the first epoch has; the others have about as many."""
        return self._items

    def doubt(self) -> str | None:
        """Say so if too many of the pairs have a second part that does not follow the first."""
        if not self._trainee.goal.pairs:
            return None
        share = float(np.mean(self._feed.store.labels == RANDOM))
        if share <= MANY_RANDOM:
            return None
        return (
            f"{share:.0%} of the pairs have a random second part, since many documents have "
            "nothing to follow their first sentence; --documents says what ends a document (gap "
            "or file suits books)"
        )

    def plan(self, epoch: int) -> list[Step]:
        """Cut an epoch's sequences and plan its steps."""
        if epoch != self._epoch:
            self._epoch, self._feed = epoch, self._feed_of(epoch)
        return self._feed.plan(epoch)

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some sequences, other tokens hidden in each epoch."""
        assert epoch == self._epoch
        return self._feed.fetch(items, epoch)

    def _feed_of(self, epoch: int) -> StoreFeed:
        found = self._cut(seed=self._training.seed, epoch=epoch)
        write_store(self._path, counted(found, "sequences cut"))
        goal, tokenizer = self._trainee.goal, self._trainee.tokenizer
        return StoreFeed(task.TASK, goal, tokenizer, Store(self._path), self._training)

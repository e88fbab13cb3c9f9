"""Training data that is read by stream, as batches: a plan for each filling of the buffer.

It stands where `heedful.training.examples.Examples` does for data that is prepared beforehand.
"""

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from heedful.batches import Batch, Draw, Positions, Step, plan_epoch
from heedful.batches.background import Background
from heedful.batches.packed import Packed
from heedful.batches.stream import Buffer, Chunks, Mark, Offer, Stage, drawn_from
from heedful.errors import amount
from heedful.settings import TrainSettings
from heedful.task import AnyTask, Shards
from heedful.training import ranks

_KEPT = 4
"""Fillings whose stage is known: a step may be asked for before the one before it is done."""


class Stream:
    """The examples of a stream, planned and fetched.

    A plan is that of a filling of the buffer; fillings are counted from the run's first.

    Args:
        task: what they are learnt for.
        tokenizer: as for the task.
        shards: what is read.
        training: how to train.
        alike: whether the items of a step have similar lengths.
        most_padding: the most tokens of padding in a micro-batch.
    """

    def __init__(
        self,
        task: AnyTask,
        tokenizer: object,
        shards: Shards,
        training: TrainSettings,
        *,
        alike: bool,
        most_padding: float,
    ) -> None:
        self._task, self._tokenizer, self._training = task, tokenizer, training
        self.alike, self._most_padding = alike, most_padding
        lanes = min(shards.side_by_side, shards.count)
        self._buffer = Buffer(
            shards=shards.count,
            lanes=lanes,
            size=shards.buffer,
            batch_size=training.batch_size,
            seed=training.seed,
            chunks=_read_by(shards, lanes),
            reads=lambda lane: lane % ranks.size() == ranks.rank(),
            share=_share,
        )
        self._stages = {0: Stage.first(0, lanes)}
        self._fillings: dict[int, Packed] = {}
        self._epochs = [(0, 0)]
        """The first filling of each epoch so far."""
        assert training.steps is not None
        assert training.batch_tokens != "auto"
        self._batch_tokens = training.batch_tokens
        self.steps_per_epoch = training.steps  # nobody knows: as for a single epoch
        some = f" by {lanes} of {ranks.size()} processes" if lanes < ranks.size() else ""
        self.card = f"{amount(shards.count, 'shard')}, read by stream{some}"

    def plan(self, filling: int) -> list[Step]:
        """Fill the buffer, and plan the steps that learn from it; fillings come in order."""
        stage = self._stages[filling]
        examples, self._stages[filling + 1] = self._buffer.fill(stage)
        self._fillings[filling] = examples
        if stage.epoch != self._epochs[-1][1]:
            self._epochs.append((filling, stage.epoch))
        for kept in (self._stages, self._fillings):
            for old in [number for number in kept if number <= filling - _KEPT]:
                del kept[old]
        training = self._training
        return plan_epoch(
            examples.lengths,
            batch_size=training.batch_size,
            batch_tokens=self._batch_tokens,
            seed=drawn_from(training.seed, stage.epoch),
            epoch=stage.filling,
            alike=self.alike,
            most_padding=self._most_padding,
        )

    def fetch(self, items: Positions, filling: int) -> Batch:
        """Make a batch of some items of a filling."""
        stage, examples = self._stages[filling], self._fillings[filling]
        rows = items + stage.row
        draw = Draw(seed=self._training.seed, epoch=stage.epoch, rows=rows, learns=True)
        return self._task.batch([examples[int(item)] for item in items], self._tokenizer, draw)

    def epoch_of(self, filling: int) -> int:
        """Return the epoch of a filling that has been made."""
        return self._epochs[bisect_right(self._epochs, filling, key=lambda row: row[0]) - 1][1]

    def bookmark(self, filling: int) -> dict[str, Any]:
        """Return what a checkpoint keeps, to fill the buffer again as it was."""
        return asdict(self._stages[filling])

    def go_on(self, filling: int, bookmark: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        marks = tuple(None if mark is None else Mark(*mark) for mark in bookmark["marks"])
        self._stages = {filling: Stage(**{**bookmark, "marks": marks})}
        self._epochs = [(filling, bookmark["epoch"])]


def _read_by(shards: Shards, lanes: int) -> Chunks:
    """Read in processes beside this one, where that computes on a GPU or the user wants it."""
    processes = shards.processes
    if processes is None:
        on_this_machine = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        processes = (os.cpu_count() or 1) // on_this_machine if torch.cuda.is_available() else 1
    processes = min(processes, -(-lanes // ranks.size()))
    return Background(shards.chunks, processes).chunks if processes > 1 else shards.chunks


def _share(offers: Mapping[int, Offer]) -> Mapping[int, Offer]:
    """Give every process what each reads: tokens, which are few beside gradients."""
    return {lane: offer for each in ranks.everyone(offers) for lane, offer in each.items()}

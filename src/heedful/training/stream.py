"""Streamed training data as batches, with one plan per fill of the shuffle buffer.

Has the interface of `heedful.training.examples.Examples`, which is for data prepared in advance.
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
from heedful.batches.stream import Buffer, Chunks, LanePosition, Offer, StreamPosition, derived_seed
from heedful.errors import count_of
from heedful.settings import TrainSettings
from heedful.task import AnyTask, Shards
from heedful.training import ranks

_KEPT = 4
"""Number of buffer fills whose state is kept: a step may be launched before the previous one is
finished."""


class Stream:
    """Plans the steps over streamed examples and builds their batches.

    Each plan covers one fill of the buffer. Fills are numbered from the start of the run.

    Args:
        task: the task.
        tokenizer: the tokenizer of the task.
        shards: the data to read.
        training: the training settings.
        by_length: whether to group items of similar length into a step.
        max_padding: maximum number of padding tokens in a micro-batch.
    """

    def __init__(
        self,
        task: AnyTask,
        tokenizer: object,
        shards: Shards,
        training: TrainSettings,
        *,
        by_length: bool,
        max_padding: float,
    ) -> None:
        self._task, self._tokenizer, self._training = task, tokenizer, training
        self.by_length, self._most_padding = by_length, max_padding
        lanes = min(shards.side_by_side, shards.count)
        self._buffer = Buffer(
            shards=shards.count,
            lanes=lanes,
            size=shards.buffer,
            batch_size=training.batch_size,
            seed=training.seed,
            chunks=_read_by(shards, lanes),
            reads=lambda lane: lane % ranks.size() == ranks.rank(),
            share=_exchange,
        )
        self._stages = {0: StreamPosition.first(0, lanes)}
        self._fillings: dict[int, Packed] = {}
        self._epochs = [(0, 0)]
        """First fill and number of each epoch so far."""
        assert training.steps is not None
        assert training.batch_tokens != "auto"
        self._batch_tokens = training.batch_tokens
        self.steps_per_epoch = training.steps  # unknown: treated as a single epoch
        readers = f" by {lanes} of {ranks.size()} processes" if lanes < ranks.size() else ""
        self.card = f"{count_of(shards.count, 'shard')}, read by stream{readers}"

    def plan(self, filling: int) -> list[Step]:
        """Fill the buffer and return its steps. Fills must be requested in order."""
        stage = self._stages[filling]
        examples, self._stages[filling + 1] = self._buffer.fill(stage)
        self._fillings[filling] = examples
        if stage.epoch != self._epochs[-1][1]:
            self._epochs.append((filling, stage.epoch))
        for buffers in (self._stages, self._fillings):
            for old in [number for number in buffers if number <= filling - _KEPT]:
                del buffers[old]
        training = self._training
        return plan_epoch(
            examples.lengths,
            batch_size=training.batch_size,
            batch_tokens=self._batch_tokens,
            seed=derived_seed(training.seed, stage.epoch),
            epoch=stage.filling,
            similar_lengths=self.by_length,
            max_padding=self._most_padding,
        )

    def fetch(self, items: Positions, filling: int) -> Batch:
        """Return a batch of items of a buffer fill."""
        stage, examples = self._stages[filling], self._fillings[filling]
        rows = items + stage.row
        draw = Draw(seed=self._training.seed, epoch=stage.epoch, rows=rows, training=True)
        return self._task.batch([examples[int(item)] for item in items], self._tokenizer, draw)

    def epoch_of(self, filling: int) -> int:
        """Return the epoch of an earlier buffer fill."""
        return self._epochs[bisect_right(self._epochs, filling, key=lambda row: row[0]) - 1][1]

    def bookmark(self, filling: int) -> dict[str, Any]:
        """Return the state that a checkpoint needs to refill the buffer in the same way."""
        return asdict(self._stages[filling])

    def resume(self, filling: int, bookmark: Mapping[str, Any]) -> None:
        """Resume from the bookmark of a checkpoint."""
        marks = tuple(None if mark is None else LanePosition(*mark) for mark in bookmark["marks"])
        self._stages = {filling: StreamPosition(**{**bookmark, "marks": marks})}
        self._epochs = [(filling, bookmark["epoch"])]


def _read_by(shards: Shards, lanes: int) -> Chunks:
    """Return the reader, in background processes if there is a GPU or the user asks for them."""
    processes = shards.processes
    if processes is None:
        local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        processes = (os.cpu_count() or 1) // local_world_size if torch.cuda.is_available() else 1
    processes = min(processes, -(-lanes // ranks.size()))
    return Background(shards.chunks, processes).chunks if processes > 1 else shards.chunks


def _exchange(offers: Mapping[int, Offer]) -> Mapping[int, Offer]:
    """Exchange the tokens that each rank has read; they are small compared with gradients."""
    return {
        lane: offer
        for offers_of_rank in ranks.everyone(offers)
        for lane, offer in offers_of_rank.items()
    }

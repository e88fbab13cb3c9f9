"""Training data as batches."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from heedful.batches import Batch, Draw, Positions, Step, Store, plan_epoch
from heedful.settings import TrainSettings
from heedful.tasks import Task


class Feed(Protocol):
    """What a model learns from."""

    @property
    def items(self) -> int:
        """How many items an epoch has."""

    def plan(self, epoch: int) -> Sequence[Step]:
        """Plan the steps of an epoch."""

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some items."""


class StoreFeed:
    """The stored examples as items, planned and fetched.

    Args:
        task: what they are learnt for.
        goal: what it learns.
        tokenizer: as for the task.
        store: the examples, kept as an attribute.
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
        self.store, self._training = store, training
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
        batch_tokens = training.batch_tokens
        if self._task.whole_batch:
            batch_tokens = int(self._sizes.max()) * training.batch_size
        return plan_epoch(
            self._sizes,
            batch_size=training.batch_size,
            batch_tokens=batch_tokens,
            seed=training.seed,
            epoch=epoch,
        )

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Make a batch of some items."""
        rows = (items[:, None] * self._per_item + np.arange(self._per_item)).ravel()
        draw = Draw(seed=self._training.seed, epoch=epoch, rows=rows)
        examples = [self.store[int(row)] for row in rows]
        return self._task.batch_of(examples, self._goal, self._tokenizer, draw)

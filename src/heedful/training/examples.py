"""Training data as batches: group examples into items and items into steps, deterministically.

Shapes: N items.
"""

import math

import numpy as np
from numpy.typing import NDArray

from heedful.batches import Batch, Draw, Positions, Step, Store, plan_epoch
from heedful.errors import count_of
from heedful.settings import TrainSettings
from heedful.task import AnyTask, StoreOf


class Examples:
    """Plans the steps of each epoch over stored examples and builds their batches.

    Args:
        task: the task.
        tokenizer: the tokenizer of the task.
        store_of: returns the examples of an epoch.
        training: the training settings.
        by_length: whether to group items of similar length into a step.
        max_padding: maximum number of padding tokens in a micro-batch.
    """

    def __init__(
        self,
        task: AnyTask,
        tokenizer: object,
        store_of: StoreOf,
        training: TrainSettings,
        *,
        by_length: bool,
        max_padding: float,
    ) -> None:
        self._task, self._tokenizer = task, tokenizer
        self.by_length, self._most_padding = by_length, max_padding
        self.batch_tokens = 0 if training.batch_tokens == "auto" else training.batch_tokens
        """Micro-batch size in tokens; 0 is one item."""
        self._store_of, self._training = store_of, training
        self._open(0)
        self.num_items = len(self._starts) - 1
        """Items of the first epoch. If each epoch splits the data anew, the others have about as
        many."""
        # Where the other items of a batch are the negatives, a lone item would teach nothing.
        left = self.num_items % training.batch_size
        self._joins_last = task.in_batch_loss and left == 1 < self.num_items
        self.steps_per_epoch = -(-self.num_items // training.batch_size) - self._joins_last
        self.card = count_of(self.num_items, "example")

    def plan(self, epoch: int) -> list[Step]:
        """Return the steps of an epoch."""
        self._open(epoch)
        training = self._training
        batch_tokens, max_padding = self.batch_tokens, self._most_padding
        if self._task.in_batch_loss:
            batch_tokens = int(self._sizes.max()) * training.batch_size
            max_padding = math.inf
        steps = plan_epoch(
            self._sizes,
            batch_size=training.batch_size,
            batch_tokens=batch_tokens,
            seed=training.seed,
            epoch=epoch,
            similar_lengths=self.by_length,
            max_padding=max_padding,
        )
        if self._joins_last:
            (last,) = steps.pop()
            steps[-1] = [np.append(steps[-1][0], last)]
        return steps

    def fetch(self, items: Positions, epoch: int) -> Batch:
        """Return a batch of items of the epoch that was planned last."""
        assert epoch == self._epoch
        ranges = [range(self._starts[item], self._starts[item + 1]) for item in items]
        rows = np.concatenate(ranges).astype(np.int64)
        draw = Draw(seed=self._training.seed, epoch=epoch, rows=rows, training=True)
        examples = [self._store[int(row)] for row in rows]
        return self._task.batch(examples, self._tokenizer, draw)

    def longest(self) -> Positions:
        """Return the item with the most tokens. Shape (1,)."""
        tokens = self._sizes.reshape(len(self._sizes), -1).sum(1)
        return np.array([tokens.argmax()])

    def _open(self, epoch: int) -> None:
        self._epoch, self._store = epoch, self._store_of(epoch)
        self._starts = item_starts(self._store)  # (N + 1,)
        # The examples of an item are padded to the longest of them.
        longest = np.maximum.reduceat(self._store.lengths, self._starts[:-1])  # (N,)
        sizes: NDArray[np.int64] = longest * np.diff(self._starts)
        if self._task.has_target_tokens:
            sizes = np.stack([sizes, self._store.label_lengths], axis=1)  # (N, 2)
        self._sizes = sizes


def item_starts(store: Store) -> NDArray[np.int64]:
    """Return the index of each item's first example and the number of examples. Shape (N + 1,)."""
    return np.append(np.flatnonzero(store.parts == 0), len(store))

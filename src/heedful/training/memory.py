"""How many tokens are computed at once: what fits, told beforehand or learnt when it did not.

The loss of a step is a sum over its items, divided once by their count. So its items may be
computed in as many portions as memory needs: that changes nothing but rounding, and which numbers
dropout draws.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from heedful.batches import Batch, Positions
from heedful.errors import UserError
from heedful.host import waits
from heedful.task import Say
from heedful.training import random_state, ranks

_LEAST_TOKENS = 256
"""Below that ``auto`` does not go: one item may have more anyway."""

_MOST_ON_CPU = 8192
"""More tokens at once are no faster on a CPU."""

_CPU_SHARE, _DEVICE_SHARE = 0.25, 0.7
"""Of the machine's memory, and of what is free on a device: what a step may keep until its backward
pass. The rest is for what its products need besides, and for other programs."""

_STATE_BYTES = 12
"""Of each weight that learns: its gradient and AdamW's two averages, all float32."""


class Portions:
    """A step's batches, in portions that fit into memory as far as is known.

    Args:
        fetch: rows and the epoch to a batch.
        splits: whether a step's items may be computed apart.
        say: takes each line meant for the user.
    """

    def __init__(self, fetch: Callable[[Positions, int], Batch], *, splits: bool, say: Say) -> None:
        self._fetch, self._splits, self._say = fetch, splits, say
        self._most = math.inf
        self._largest = 0

    def batches(self, micro_batches: Sequence[Positions], epoch: int) -> list[Batch]:
        """Make the batches of a step."""
        self._largest = 0
        return [batch for items in micro_batches for batch in self._cut(items, epoch)]

    def _cut(self, items: Positions, epoch: int) -> list[Batch]:
        batch = self._fetch(items, epoch)
        if len(items) == 1:
            return [batch]
        if batch.num_positions <= self._most:
            self._largest = max(self._largest, batch.num_positions)
            return [batch]
        middle = -(-len(items) // 2)
        return [*self._cut(items[:middle], epoch), *self._cut(items[middle:], epoch)]

    def halve(self, step: int) -> None:
        """Allow half as many tokens from now on, because the last batches did not fit.

        Args:
            step: the step's number, from 1.

        Raises:
            UserError: there is nothing to halve.
        """
        where = f"out of memory at step {step}"
        if ranks.size() > 1:
            raise UserError(f"{where} in one of several processes: give a smaller --batch-tokens")
        if not self._splits:
            raise UserError(
                f"{where}: the items of a step are compared with each other and cannot be computed "
                "apart; give a smaller --batch-size or --gradient-checkpointing"
            )
        if not self._largest:
            raise UserError(
                f"{where}, with one item at a time: give a smaller --max-length, or "
                "--gradient-checkpointing"
            )
        self._most = self._largest // 2
        self._say(
            f"{where}: it is done again, and from now on at most {self._most:,} tokens are "
            "computed at once"
        )


def tokens_that_fit(
    model: nn.Module, loss: Callable[[], Tensor], positions: int, device: torch.device
) -> int:
    """Choose how many tokens to compute at once: a power of two.

    What the backward pass needs of one batch is measured. A CPU may keep a quarter of the machine's
    memory for it, and 8,192 tokens at most; another device most of what is free, less what
    gradients and the optimizer will take.

    Args:
        model: what is trained, on the device.
        loss: computes that of the batch.
        positions: tokens and padding of the batch.
        device: where that is.

    Returns:
        The same in all processes: what the first one chose.
    """
    random = random_state.of_device(device)
    model.train()
    each = _kept_bytes(model, loss) / positions
    random_state.restore(random, device)
    if waits(device):
        learnt = sum(p.numel() for p in model.parameters() if p.requires_grad)
        free, most = torch.cuda.mem_get_info(device)[0] - _STATE_BYTES * learnt, math.inf
        budget = _DEVICE_SHARE * free
    else:
        budget = _CPU_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = _MOST_ON_CPU
    fits = max(min(budget / each, most), _LEAST_TOKENS)
    chosen = 2 ** int(math.log2(fits)) if ranks.is_first() else 0
    return int(ranks.total(torch.tensor(chosen)))


def _kept_bytes(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """Return the size of what a loss keeps for its backward pass, the model's weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        total = loss()
    del total  # only now may the memory of what is counted be used again
    return sum(kept.values())

"""Micro-batch size: how many tokens fit into memory, measured in advance or after a failure.

The loss of a step is a sum over its items, divided once by their count. So a step can be split into
as many micro-batches as memory requires. That changes only rounding and the random numbers of
dropout.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from heedful.batches import Batch, Positions
from heedful.device_transfer import blocks_host
from heedful.errors import UserError
from heedful.task import Say
from heedful.training import random_state, ranks

_MIN_TOKENS = 256
"""Lower limit of ``auto``: a single item may have more tokens anyway."""

_MAX_ON_CPU = 8192
"""Larger micro-batches are no faster on a CPU."""

_CPU_SHARE, _DEVICE_SHARE = 0.25, 0.7
"""Share of the machine's memory, or of a device's free memory, for the tensors saved for the
backward pass. The rest is for temporary buffers and for other programs."""

_STATE_BYTES = 12
"""Bytes per trainable weight: its gradient and AdamW's two moments, all float32."""


class Portions:
    """Splits the micro-batches of a step so that they fit into memory.

    Args:
        fetch: returns a batch from item positions and an epoch.
        splits: whether micro-batches may be split further.
        say: called with each line of output for the user.
    """

    def __init__(self, fetch: Callable[[Positions, int], Batch], *, splits: bool, say: Say) -> None:
        self._fetch, self._splits, self._say = fetch, splits, say
        self._max_tokens = math.inf
        self._largest = 0

    def batches(self, micro_batches: Sequence[Positions], epoch: int) -> list[Batch]:
        """Return the batches of a step."""
        self._largest = 0
        return [batch for items in micro_batches for batch in self._split(items, epoch)]

    def _split(self, items: Positions, epoch: int) -> list[Batch]:
        batch = self._fetch(items, epoch)
        if len(items) == 1:
            return [batch]
        if batch.num_positions <= self._max_tokens:
            self._largest = max(self._largest, batch.num_positions)
            return [batch]
        middle = -(-len(items) // 2)
        return [*self._split(items[:middle], epoch), *self._split(items[middle:], epoch)]

    def halve(self, step: int) -> None:
        """Halve the maximum number of tokens, because the last batches did not fit into memory.

        Args:
            step: the step number, from 1.

        Raises:
            UserError: the batches cannot be split further.
        """
        where = f"out of memory at step {step}"
        if ranks.size() > 1:
            raise UserError(f"{where} in one of several processes: give a smaller --batch-tokens")
        if not self._splits:
            raise UserError(
                f"{where}: the items of a step are compared with each other and cannot be computed "
                "separately; give a smaller --batch-size or --gradient-checkpointing"
            )
        if not self._largest:
            raise UserError(
                f"{where}, with one item at a time: give a smaller --max-length, or "
                "--gradient-checkpointing"
            )
        self._max_tokens = self._largest // 2
        self._say(
            f"{where}: repeating it; from now on, at most {self._max_tokens:,} tokens are computed "
            "at once"
        )


def tokens_that_fit(
    model: nn.Module, loss: Callable[[], Tensor], positions: int, device: torch.device
) -> int:
    """Return the micro-batch size in tokens, a power of two.

    Measures the tensors that one batch saves for the backward pass. On a CPU they may take a
    quarter of the machine's memory, and a micro-batch has at most 8,192 tokens. On other devices
    they may take most of the free memory, minus the gradients and the optimizer state.

    Args:
        model: the model to train, on the device.
        loss: computes the loss of the batch.
        positions: number of tokens in the batch, padding included.
        device: device of the model.

    Returns:
        The choice of the first rank, the same on all ranks.
    """
    rng_state = random_state.of_device(device)
    model.train()
    bytes_per_token = _saved_bytes(model, loss) / positions
    random_state.restore(rng_state, device)
    if blocks_host(device):
        trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        free, limit = torch.cuda.mem_get_info(device)[0] - _STATE_BYTES * trainable, math.inf
        budget = _DEVICE_SHARE * free
    else:
        budget = _CPU_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = _MAX_ON_CPU
    num_tokens = max(min(budget / bytes_per_token, limit), _MIN_TOKENS)
    chosen = 2 ** int(math.log2(num_tokens)) if ranks.is_first() else 0
    return int(ranks.total(torch.tensor(chosen)))


def _saved_bytes(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """Return the bytes that a loss saves for its backward pass, without the model's weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        total = loss()
    del total  # not earlier: it keeps the saved tensors alive, so that no address is reused
    return sum(saved.values())

"""Distributed training: collective operations over all ranks, free of cost with a single one.

``torchrun`` starts the processes, and torch connects them. Only rank 0 writes files, logs and
messages. Each rank computes its share of a step's items and of an evaluation. Losses and counts are
summed over all ranks before any division, and gradients are summed too. So the weights stay the
same on all ranks.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.errors import (
    EXIT_STOPPED,
    EXIT_USER_ERROR,
    MAX_NAME_LENGTH,
    UserError,
    message_of,
    option_of,
    shorten,
)
from heedful.training.rendezvous import INTERFACE
from heedful.training.watchdog import GoneError, noticing_who_is_gone, watching

Item = TypeVar("Item")

_CHUNK = 1024
"""Items of a stream that each rank processes between two gather operations."""

_BACKENDS = "cpu:gloo,cuda:nccl"

_PATIENCE = timedelta(days=1)
"""Timeout of collective operations, long enough for another process to prepare the data."""

_MAX_DIFFERENCES = 3
"""Maximum number of differences in an error message."""


@contextmanager
def together(advice: str = "start all of them again") -> Iterator[None]:
    """Join the process group of ``torchrun``, if any, and leave it at the end.

    Args:
        advice: what the user can do if a process is killed.

    Raises:
        UserError: the environment describes other processes, but they cannot be reached.
        GoneError: a process was killed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or _is_initialized():
        yield
        return
    has_cuda = torch.cuda.is_available()
    if has_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with watching(advice) as meeting:
        try:
            with _explaining_unreachable():
                dist.init_process_group(
                    _BACKENDS if has_cuda else "gloo",
                    store=meeting.store,
                    rank=meeting.rank,
                    world_size=meeting.size,
                    timeout=_PATIENCE,
                )
            if not is_first():  # print warnings about a model's weights only once
                logging.getLogger("heedful").setLevel(logging.ERROR)
            yield
            barrier()
        finally:
            if _is_initialized():
                dist.destroy_process_group()


@contextmanager
def _explaining_unreachable() -> Iterator[None]:
    """Tell the user what to do if the processes have met but cannot reach each other."""
    try:
        with noticing_who_is_gone():
            yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the processes found each other, but this one cannot connect to the others: {reason}; "
            f"set {INTERFACE} on each machine to the network interface that connects them"
        ) from None


def rank() -> int:
    """Return the rank of this process, from 0."""
    return dist.get_rank() if _is_initialized() else 0


def size() -> int:
    """Return the world size: the number of processes."""
    return dist.get_world_size() if _is_initialized() else 1


def is_first() -> bool:
    """Return whether this is rank 0, which writes files, logs and messages."""
    return rank() == 0


def on_first_rank(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``say`` on the first rank and a function without effect on all others."""
    return say if is_first() else lambda line: None


def total(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all ranks."""
    if size() == 1:
        return tensor
    summed = tensor.clone()
    dist.all_reduce(summed)
    return summed


def any_of(flags: Sequence[bool]) -> list[bool]:
    """Return for each flag whether it is set on any rank."""
    if size() == 1:
        return list(flags)
    return [count > 0 for count in total(torch.tensor(flags, dtype=torch.int64)).tolist()]


def barrier() -> None:
    """Wait until all ranks have reached this call."""
    if size() > 1:
        dist.barrier()


@contextmanager
def first_before_others() -> Iterator[None]:
    """Run the context on the first rank, then on all others, which find the files it wrote."""
    if not is_first():
        barrier()
    yield
    if is_first():
        barrier()


def check_same(facts: Mapping[str, object]) -> None:
    """Check that all ranks have the same facts. This is a collective operation.

    Raises:
        UserError: the facts differ; the error names the differences.
    """
    if size() == 1:
        return
    facts_of_ranks: list[Any] = [None] * size()
    dist.all_gather_object(facts_of_ranks, dict(facts))
    for number, other in enumerate(facts_of_ranks):
        for name, fact in facts_of_ranks[0].items():
            if other.get(name) != fact:
                differences = "; ".join(
                    list(_differences(name, fact, other.get(name)))[:_MAX_DIFFERENCES]
                )
                raise SharedError(f"processes 0 and {number} started differently: {differences}")


def _differences(name: str, one: object, other: object) -> Iterator[str]:
    """Yield the differences between two processes; for dictionaries, those of their values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                what = option_of(key) if name == "settings" else f"{key!r} of {name}"
                yield from _differences(what, one.get(key), other.get(key))
        return
    in_one, in_other = (shorten(repr(value), MAX_NAME_LENGTH) for value in (one, other))
    yield f"{name} is {in_one} in one, {in_other} in the other"


def everyone(item: Item) -> list[Item]:
    """Return the items of all ranks, in rank order."""
    if size() == 1:
        return [item]
    items: list[Any] = [None] * size()
    dist.all_gather_object(items, item)
    return items


@contextmanager
def naming_the_process() -> Iterator[None]:
    """Name the rank in errors of all ranks but the first; report a shared error only once."""
    try:
        with noticing_who_is_gone():
            yield
    except KeyboardInterrupt:
        if is_first():
            raise
        raise SystemExit(EXIT_STOPPED) from None
    except SharedError:
        if is_first():
            raise
        raise SystemExit(EXIT_USER_ERROR) from None
    except GoneError as error:
        if error.speaks:
            raise
        raise SystemExit(EXIT_USER_ERROR) from None
    except UserError as error:
        if is_first():
            raise
        raise UserError(f"process {rank()}: {error}") from None


class SharedError(UserError):
    """An error on one or more ranks that all ranks know of."""


@contextmanager
def failing_together() -> Iterator[None]:
    """Raise an error of one rank on all ranks. The context must not contain collective operations.

    Raises:
        UserError: on all ranks, the error of the first rank that has one.
    """
    if size() == 1:
        yield
        return
    error = None
    try:
        yield
    except (UserError, OSError) as raised:
        error = raised
    _raise_everywhere(error)


def _raise_everywhere(error: Exception | None) -> None:
    message = None if error is None else message_of(error)
    messages: list[str | None] = [None] * size()
    dist.all_gather_object(messages, message)
    for number, message in enumerate(messages):
        if message is not None:
            alike = messages[0] == message
            raise SharedError(message if alike else f"process {number}: {message}") from error


class Part(NamedTuple):
    """One rank's part of a micro-batch."""

    items: NDArray[np.int64]
    copies: int
    """Number of ranks that compute the same items: each loss is divided by it."""


def part(items: NDArray[np.int64]) -> Part:
    """Return this rank's part of the items of a micro-batch.

    With fewer items than ranks, every rank computes all items, so that no rank has none.
    """
    if len(items) < size():
        return Part(items, size())
    return Part(items[rank() :: size()], 1)


def joined(
    compute: Callable[[Iterator[Item]], Iterator[Any]], stream: Iterable[Item]
) -> Iterator[Any]:
    """Yield the results for all items of a stream, in order; each rank computes its share.

    Args:
        compute: maps a stream of items to a stream of results.
        stream: the items, the same on all ranks.

    Raises:
        UserError: on all ranks, the error of one of them.
    """
    if size() == 1:
        yield from compute(iter(stream))
        return
    results = compute(islice(iter(stream), rank(), None, size()))
    blocks: list[Any] = [None] * size()
    while True:
        block: list[Any] = []
        with failing_together():
            block = list(islice(results, _CHUNK))
        dist.all_gather_object(blocks, block)
        yield from _interleaved(blocks)
        if len(blocks[0]) < _CHUNK:  # the first rank has the most items
            return


def to_first(items: list[Item]) -> list[Item] | None:
    """Gather the results of all ranks on the first, in order; all other ranks get None.

    Args:
        items: results for every ``size()``-th item, starting from number ``rank()``.
    """
    if size() == 1:
        return items
    lists: list[Any] | None = [None] * size() if is_first() else None
    dist.gather_object(items, lists)
    return None if lists is None else _interleaved(lists)


def to_all(items: list[Item]) -> list[Item]:
    """Gather the results of all ranks on every rank, in order; see `to_first`."""
    return _interleaved(everyone(items))


def from_first(item: Item) -> Item:
    """Return the item of the first rank."""
    if size() == 1:
        return item
    items = [item]
    dist.broadcast_object_list(items)
    return items[0]


def _interleaved(lists: Sequence[list[Item]]) -> list[Item]:
    nothing: Any = object()
    rows = chain.from_iterable(zip_longest(*lists, fillvalue=nothing))
    return [item for item in rows if item is not nothing]


def gathered(tensor: Tensor, padding: int = 0) -> Tensor:
    """Return the concatenated rows of all ranks.

    Every rank computes the same loss from them and weights it by 1 / ``size()``. Gradients reach
    only this rank's rows, multiplied by ``size()``. Summed over the ranks, they are the gradients
    of the whole loss.

    Args:
        tensor: shape (R, D); R and D may differ between ranks.
        padding: value of missing columns.

    Returns:
        Shape (sum of R, maximum D).
    """
    if size() == 1:
        return tensor
    shape = torch.tensor(tensor.shape, device=tensor.device)
    shapes = [torch.empty_like(shape) for _ in range(size())]
    dist.all_gather(shapes, shape)
    max_shape = torch.stack(shapes).amax(0).tolist()
    padded = tensor.new_full(max_shape, padding)
    padded[: len(tensor), : tensor.shape[1]] = tensor.detach()
    blocks = [torch.empty_like(padded) for _ in range(size())]
    dist.all_gather(blocks, padded)
    if tensor.requires_grad:
        attached = padded.clone()
        attached[: len(tensor), : tensor.shape[1]] = tensor
        attached.register_hook(lambda gradient: gradient * size())  # type: ignore[no-untyped-call]
        blocks[rank()] = attached
    counts = [int(each_shape[0]) for each_shape in shapes]
    return torch.cat([block[:count] for block, count in zip(blocks, counts, strict=True)])


def add_gradients(model: nn.Module) -> None:
    """All-reduce the gradients; a parameter gets a gradient if it has one on any rank."""
    if size() == 1:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    has_gradient = any_of([parameter.grad is not None for parameter in parameters])
    for parameter, needed in zip(parameters, has_gradient, strict=True):
        if needed and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    sums = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(sums)
    start = 0
    for gradient in gradients:
        gradient.copy_(sums[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def local(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor, or the tensor itself if it is not sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def send_weights(model: nn.Module) -> None:
    """Broadcast the weights of the first rank."""
    if size() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)


def _is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()

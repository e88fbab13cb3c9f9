"""Processes that train one model together. With a single one nothing here costs anything.

``torchrun`` starts them, and torch brings them together. A run's files, logs and messages have one
writer, the first rank. Each rank takes its share of a step's items and of what is evaluated; losses
and counts are summed over all ranks before anything is divided by them, and so are gradients: the
weights stay the same on all.
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
    LONGEST_NAME,
    UserError,
    message_of,
    option_of,
    shorten,
)
from heedful.training.meeting import INTERFACE
from heedful.training.watch import GoneError, noticing_who_is_gone, watching

Item = TypeVar("Item")

_TOGETHER = 1024
"""Items of a stream that each rank works on before they are put together."""

_BACKENDS = "cpu:gloo,cuda:nccl"

_PATIENCE = timedelta(days=1)
"""How long a process waits for another: while that prepares the data, for example."""

_MOST_FACTS = 3
"""Of those that differ, how many a message tells."""


@contextmanager
def together(advice: str = "start all of them again") -> Iterator[None]:
    """Meet the processes that ``torchrun`` started beside this one, if any, and part in the end.

    Args:
        advice: what the user does if one of them is killed.

    Raises:
        UserError: the environment says that there are others, but they cannot be met or reached.
        GoneError: one of them was killed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or _met():
        yield
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with watching(advice) as meeting:
        try:
            with _reaching_others():
                dist.init_process_group(
                    _BACKENDS if cuda else "gloo",
                    store=meeting.store,
                    rank=meeting.rank,
                    world_size=meeting.size,
                    timeout=_PATIENCE,
                )
            if not is_first():  # so that what is said of a model's weights is said once
                logging.getLogger("heedful").setLevel(logging.ERROR)
            yield
            barrier()
        finally:
            if _met():
                dist.destroy_process_group()


@contextmanager
def _reaching_others() -> Iterator[None]:
    """Say what the user can do where processes that met cannot reach each other."""
    try:
        with noticing_who_is_gone():
            yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the processes met, but this one cannot reach the others: {reason}; set "
            f"{INTERFACE} on each machine to the network interface that joins them"
        ) from None


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if _met() else 0


def size() -> int:
    """Return how many processes train together."""
    return dist.get_world_size() if _met() else 1


def is_first() -> bool:
    """Tell whether this process writes files, logs and messages."""
    return rank() == 0


def said_once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return what says a line in the first process, and nothing in all others."""
    return say if is_first() else lambda line: None


def total(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes."""
    if size() == 1:
        return tensor
    summed = tensor.clone()
    dist.all_reduce(summed)
    return summed


def any_of(flags: Sequence[bool]) -> list[bool]:
    """Return for each flag whether it holds in any process."""
    if size() == 1:
        return list(flags)
    return [count > 0 for count in total(torch.tensor(flags, dtype=torch.int64)).tolist()]


def barrier() -> None:
    """Wait until every process is here."""
    if size() > 1:
        dist.barrier()


@contextmanager
def first_before_others() -> Iterator[None]:
    """Let the first rank do something alone, then all others at once: they find what it wrote."""
    if not is_first():
        barrier()
    yield
    if is_first():
        barrier()


def check_same(facts: Mapping[str, object]) -> None:
    """Check that all processes know the same; every one waits for the others.

    Raises:
        UserError: naming what differs.
    """
    if size() == 1:
        return
    everyone: list[Any] = [None] * size()
    dist.all_gather_object(everyone, dict(facts))
    for number, other in enumerate(everyone):
        for name, fact in everyone[0].items():
            if other.get(name) != fact:
                differences = "; ".join(
                    list(_differences(name, fact, other.get(name)))[:_MOST_FACTS]
                )
                raise SharedError(f"processes 0 and {number} do not start alike: {differences}")


def _differences(name: str, one: object, other: object) -> Iterator[str]:
    """Yield what is not the same in two processes; of dictionaries the values that differ alone."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                what = option_of(key) if name == "settings" else f"{key!r} of {name}"
                yield from _differences(what, one.get(key), other.get(key))
        return
    in_one, in_other = (shorten(repr(value), LONGEST_NAME) for value in (one, other))
    yield f"{name} is {in_one} in one, {in_other} in the other"


def everyone(item: Item) -> list[Item]:
    """Return what each process has, by their order."""
    if size() == 1:
        return [item]
    items: list[Any] = [None] * size()
    dist.all_gather_object(items, item)
    return items


@contextmanager
def naming_the_process() -> Iterator[None]:
    """Say in errors of all ranks but the first whose they are; what all know one of them tells."""
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
    """What one process met, or several, and all know of."""


@contextmanager
def failing_together() -> Iterator[None]:
    """Have an error that one process meets end all of them. No collective call goes in here.

    Raises:
        UserError: on all processes, what the first of those that met one did.
    """
    if size() == 1:
        yield
        return
    error = None
    try:
        yield
    except (UserError, OSError) as raised:
        error = raised
    _share(error)


def _share(error: Exception | None) -> None:
    message = None if error is None else message_of(error)
    everyone: list[str | None] = [None] * size()
    dist.all_gather_object(everyone, message)
    for number, message in enumerate(everyone):
        if message is not None:
            alike = everyone[0] == message
            raise SharedError(message if alike else f"process {number}: {message}") from error


class Part(NamedTuple):
    """What one rank computes of a micro-batch."""

    items: NDArray[np.int64]
    copies: int
    """How many ranks compute the very same: each counts so much less."""


def part(items: NDArray[np.int64]) -> Part:
    """Return this rank's part of the items of a micro-batch.

    Where there are fewer items than ranks, all ranks compute all of them: none is left without.
    """
    if len(items) < size():
        return Part(items, size())
    return Part(items[rank() :: size()], 1)


def joined(
    compute: Callable[[Iterator[Item]], Iterator[Any]], stream: Iterable[Item]
) -> Iterator[Any]:
    """Yield what is computed for each item of a stream, in order; each rank computes its share.

    Args:
        compute: from a stream of items to a stream of what is computed for each.
        stream: the same on all ranks.

    Raises:
        UserError: on all ranks, what one of them met.
    """
    if size() == 1:
        yield from compute(iter(stream))
        return
    answers = compute(islice(iter(stream), rank(), None, size()))
    blocks: list[Any] = [None] * size()
    while True:
        block: list[Any] = []
        with failing_together():
            block = list(islice(answers, _TOGETHER))
        dist.all_gather_object(blocks, block)
        yield from _interleaved(blocks)
        if len(blocks[0]) < _TOGETHER:  # the first has the most
            return


def to_first(items: list[Item]) -> list[Item] | None:
    """Give the first rank what all have computed of their shares, in order; all others get None.

    Args:
        items: as of every ``size()``-th item from number ``rank()`` on.
    """
    if size() == 1:
        return items
    lists: list[Any] | None = [None] * size() if is_first() else None
    dist.gather_object(items, lists)
    return None if lists is None else _interleaved(lists)


def to_all(items: list[Item]) -> list[Item]:
    """Return what all have computed of their shares, in order; see `to_first`."""
    return _interleaved(everyone(items))


def from_first(item: Item) -> Item:
    """Return what the first rank has."""
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
    """Return the rows of all ranks under each other.

    Each rank computes the same from them and takes a share of 1 to ``size()``. Gradients reach this
    rank's rows alone, as many times larger: summed over the ranks they are those of the whole.

    Args:
        tensor: shape (R, D); R and D may differ between ranks.
        padding: fills the columns that a rank does not have.

    Returns:
        Shape (sum of R, greatest D).
    """
    if size() == 1:
        return tensor
    shape = torch.tensor(tensor.shape, device=tensor.device)
    shapes = [torch.empty_like(shape) for _ in range(size())]
    dist.all_gather(shapes, shape)
    most = torch.stack(shapes).amax(0).tolist()
    padded = tensor.new_full(most, padding)
    padded[: len(tensor), : tensor.shape[1]] = tensor.detach()
    everyone = [torch.empty_like(padded) for _ in range(size())]
    dist.all_gather(everyone, padded)
    if tensor.requires_grad:
        attached = padded.clone()
        attached[: len(tensor), : tensor.shape[1]] = tensor
        attached.register_hook(lambda gradient: gradient * size())  # type: ignore[no-untyped-call]
        everyone[rank()] = attached
    rows = [int(each[0]) for each in shapes]
    return torch.cat([block[:count] for block, count in zip(everyone, rows, strict=True)])


def add_gradients(model: nn.Module) -> None:
    """Add up the gradients of all ranks; a parameter has one if it has one on any rank."""
    if size() == 1:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    there = any_of([parameter.grad is not None for parameter in parameters])
    for parameter, wanted in zip(parameters, there, strict=True):
        if wanted and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    sums = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(sums)
    at = 0
    for gradient in gradients:
        gradient.copy_(sums[at : at + gradient.numel()].view_as(gradient))
        at += gradient.numel()


def local(tensor: Tensor) -> Tensor:
    """Return what this process has of a tensor that processes may divide."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def send_weights(model: nn.Module) -> None:
    """Give all ranks the weights of the first."""
    if size() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)


def _met() -> bool:
    return dist.is_available() and dist.is_initialized()

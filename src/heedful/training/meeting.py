"""How processes that ``torchrun`` started find each other, also when it starts them again.

The store in which they tell each other their addresses belongs to ``torchrun`` and outlives them:
it still holds what those before them wrote. So the first process draws a name under which only
these write, and tells it to each of the others, who ask for it under a name that is new, too.
"""

import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from heedful.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PATIENCE = timedelta(minutes=10)
"""How long a process waits for another to start."""

_PAUSE = 0.02
"""Seconds between two looks at who has come."""


class Meeting(NamedTuple):
    """What processes know that have met."""

    store: "Store"
    """These processes alone use it."""
    second: "Store"
    """The same by a connection of its own, for another thread."""
    rank: int
    size: int


def meet() -> Meeting:
    """Meet the processes that the environment speaks of.

    Raises:
        UserError: one of them did not come.
        ValueError: the environment does not say where to meet.
        RuntimeError: the meeting place cannot be reached.
    """
    # Not every build of torch has them.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    second, _, _ = next(rendezvous("env://", timeout=_PATIENCE))
    name = agree(store, rank, size)
    return Meeting(PrefixStore(name, store), PrefixStore(name, second), rank, size)


def agree(store: "Store", rank: int, size: int) -> str:
    """Return a name that all processes of this start return, and no other ones ever.

    Raises:
        UserError: one of them did not come.
    """
    name = uuid4().hex
    if rank == 0:
        _tell(store, name, size)
        return name
    store.set(f"heedful/{rank}", name)
    name = store.get(f"first/{name}").decode()
    store.set(f"{name}/{rank}", "")
    return name


def _tell(store: "Store", name: str, size: int) -> None:
    """Tell each process the name of the first, until all have heard it."""
    end = time.monotonic() + _PATIENCE.total_seconds()
    waiting = set(range(1, size))
    while waiting:
        for other in sorted(waiting):
            if store.check([f"{name}/{other}"]):
                waiting.remove(other)
            elif store.check([f"heedful/{other}"]):
                store.set(f"first/{store.get(f'heedful/{other}').decode()}", name)
        if time.monotonic() > end:
            absent = ", ".join(map(str, sorted(waiting)))
            raise UserError(f"of {size} processes these did not join within {_PATIENCE}: {absent}")
        time.sleep(_PAUSE)

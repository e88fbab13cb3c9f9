"""How processes that ``torchrun`` started find each other, also when it starts them again.

The store in which they tell each other their addresses belongs to ``torchrun`` and outlives them:
it still holds what those before them wrote. So the first process draws a name under which only
these write, and tells it to each of the others, who ask for it under a name that is new, too.

Then they choose the network between machines. Torch looks up the name of its machine for that, and
on Debian and Ubuntu this name means 127.0.1.1, where no other machine reaches it.
"""

import ipaddress
import os
import socket
import struct
import sys
import time
from contextlib import suppress
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

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Where torch looks for the interface, and a user may name it."""

_ADDRESS_OF_INTERFACE = 0x8915
"""Linux's SIOCGIFADDR, which fills 16 bytes of a name and then a struct sockaddr_in."""


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
    ours = PrefixStore(name, store)
    if INTERFACE not in os.environ:
        master = os.environ.get("MASTER_ADDR", "")
        interface = interface_of(address_to_others(ours, rank, size, master))
        if interface is not None:
            os.environ[INTERFACE] = interface
    return Meeting(ours, PrefixStore(name, second), rank, size)


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


def address_to_others(store: "Store", rank: int, size: int, master: str) -> str | None:
    """Return the address at which other machines reach this process; None if there are none.

    Args:
        store: these processes alone use it.
        rank: the number of this process.
        size: how many there are.
        master: name or address of the machine where they meet.
    """
    mine = _address_towards(master)
    store.set(f"address/{rank}", mine or "")
    everyone = store.multi_get([f"address/{number}" for number in range(size)])
    away = [other for other in (each.decode() for each in everyone) if _leaves_the_machine(other)]
    if not away:
        return None
    if mine is None or _leaves_the_machine(mine):
        return mine
    return _address_towards(away[0])  # they meet on this machine


def interface_of(address: str | None) -> str | None:
    """Return the network interface of this machine that has an address, where that can be told."""
    if address is None or sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no address
                filled = fcntl.ioctl(
                    asked, _ADDRESS_OF_INTERFACE, struct.pack("256s", name.encode())
                )
                if socket.inet_ntoa(filled[20:24]) == address:
                    return name
    return None


def _address_towards(machine: str) -> str | None:
    """Return which address of this machine is on the way to another, if any is."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((machine, 9))  # which sends nothing
        return str(way.getsockname()[0])
    return None


def _leaves_the_machine(address: str) -> bool:
    return bool(address) and not ipaddress.ip_address(address).is_loopback

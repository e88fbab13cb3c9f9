"""Rendezvous of the processes that ``torchrun`` started, safe across restarts.

The store in which they exchange addresses belongs to ``torchrun`` and outlives them: it still holds
the keys of earlier processes. So rank 0 draws a new key prefix for this start and sends it to each
of the other ranks, which ask for it under a key that is new too.

Then the ranks choose the network interface between machines. Torch would look up the host name,
but on Debian and Ubuntu it resolves to 127.0.1.1, which other machines cannot reach.
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
"""How long a process waits for the others to start."""

_PAUSE = 0.02
"""Seconds between two checks for ranks that have joined."""

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable with the network interface for torch. The user may set it."""

_ADDRESS_OF_INTERFACE = 0x8915
"""Linux's SIOCGIFADDR. The result has 16 bytes of interface name, then a struct sockaddr_in."""


class Meeting(NamedTuple):
    """The result of a rendezvous."""

    store: "Store"
    """A store that only these processes use."""
    second: "Store"
    """The same store over a second connection, for another thread."""
    rank: int
    size: int


def meet() -> Meeting:
    """Rendezvous with the processes that the environment variables describe.

    Raises:
        UserError: a process did not join.
        ValueError: the environment has no rendezvous address.
        RuntimeError: the rendezvous address cannot be reached.
    """
    # Not every build of torch has these modules.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    second, _, _ = next(rendezvous("env://", timeout=_PATIENCE))
    name = agree(store, rank, size)
    prefixed = PrefixStore(name, store)
    if INTERFACE not in os.environ:
        master = os.environ.get("MASTER_ADDR", "")
        interface = interface_of(address_to_others(prefixed, rank, size, master))
        if interface is not None:
            os.environ[INTERFACE] = interface
    return Meeting(prefixed, PrefixStore(name, second), rank, size)


def agree(store: "Store", rank: int, size: int) -> str:
    """Return a unique name that all processes of this start agree on.

    Raises:
        UserError: a process did not join.
    """
    name = uuid4().hex
    if rank == 0:
        _announce(store, name, size)
        return name
    store.set(f"heedful/{rank}", name)
    name = store.get(f"first/{name}").decode()
    store.set(f"{name}/{rank}", "")
    return name


def _announce(store: "Store", name: str, size: int) -> None:
    """Send the name of rank 0 to each rank until all have confirmed it."""
    deadline = time.monotonic() + _PATIENCE.total_seconds()
    waiting = set(range(1, size))
    while waiting:
        for other in sorted(waiting):
            if store.check([f"{name}/{other}"]):
                waiting.remove(other)
            elif store.check([f"heedful/{other}"]):
                store.set(f"first/{store.get(f'heedful/{other}').decode()}", name)
        if time.monotonic() > deadline:
            absent = ", ".join(map(str, sorted(waiting)))
            raise UserError(f"of {size} processes, these did not join within {_PATIENCE}: {absent}")
        time.sleep(_PAUSE)


def address_to_others(store: "Store", rank: int, size: int, master: str) -> str | None:
    """Return the address at which other machines reach this process; None with a single machine.

    Args:
        store: a store that only these processes use.
        rank: rank of this process.
        size: world size.
        master: host name or address of the rendezvous machine.
    """
    own_address = _address_towards(master)
    store.set(f"address/{rank}", own_address or "")
    addresses = store.multi_get([f"address/{number}" for number in range(size)])
    remote = [other for other in (each.decode() for each in addresses) if _is_remote(other)]
    if not remote:
        return None
    if own_address is None or _is_remote(own_address):
        return own_address
    return _address_towards(remote[0])  # the rendezvous is on this machine


def interface_of(address: str | None) -> str | None:
    """Return the network interface of this machine with this address; None if unknown."""
    if address is None or sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # the interface has no address
                reply = fcntl.ioctl(
                    connection, _ADDRESS_OF_INTERFACE, struct.pack("256s", name.encode())
                )
                if socket.inet_ntoa(reply[20:24]) == address:
                    return name
    return None


def _address_towards(machine: str) -> str | None:
    """Return the address of this machine on the route to another one, if there is a route."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect((machine, 9))  # connecting a datagram socket sends nothing
        return str(connection.getsockname()[0])
    return None


def _is_remote(address: str) -> bool:
    return bool(address) and not ipaddress.ip_address(address).is_loopback

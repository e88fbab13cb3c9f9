"""The server process: the socket, uvicorn, and signal handling."""

import asyncio
import functools
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from heedful.errors import UserError
from heedful.serving.access import KEY_VARIABLE, AccessControl, access_control, is_open
from heedful.serving.application import application
from heedful.serving.connection import Connection, ConnectionLimits
from heedful.serving.loading import Loaded, load
from heedful.serving.logs import logging_json
from heedful.serving.service import Service
from heedful.settings import ServeSettings
from heedful.task import Say

_BACKLOG = 128
"""Backlog of the listening socket: connections not yet accepted."""


def run(runs: Sequence[str], settings: ServeSettings, say: Say) -> None:
    """Serve until a signal stops the server, then answer the accepted requests and return.

    Raises:
        UserError: a run cannot be loaded, the address cannot be bound, or the API key is invalid.
    """
    access = access_control(settings)
    if is_open(settings) and access.key is None:
        say(
            f"warning: anyone who can reach {settings.host} can use this server; to require a key, "
            f"set --api-key-file or {KEY_VARIABLE}"
        )
    with _listen(settings) as listener, _restored_signals():
        # No reload is needed while the runs are loading.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        loaded = [load(run, settings) for run in runs]
        with logging_json():
            asyncio.run(_serve(loaded, settings, access, listener, say))


@contextmanager
def _restored_signals() -> Iterator[None]:
    """Restore the handlers of SIGHUP and SIGTERM on exit."""
    handlers = {name: signal.getsignal(name) for name in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)


async def _serve(
    loaded: Sequence[Loaded],
    settings: ServeSettings,
    access: AccessControl,
    listener: socket.socket,
    say: Say,
) -> None:
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    service = Service(loaded, settings, on_failure=fail)
    server = uvicorn.Server(_config(service, access, settings))
    # uvicorn re-raises the signal that stopped it when it is done.
    signal.signal(signal.SIGTERM, server.handle_exit)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        reloads.add(task := asyncio.create_task(_reload(service, say)))
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    host, port = listener.getsockname()[:2]
    with _naming_address(settings):  # two servers can bind the same address, but not listen on it
        listener.listen(_BACKLOG)
    address = f"[{host}]" if ":" in host else host
    say(f"serving {', '.join(service.runs)} at http://{address}:{port}{settings.root_path}")
    await server.serve(sockets=[listener])
    if failures:
        raise failures[0]


async def _reload(service: Service, say: Say) -> None:
    for line in await service.reload():
        say(line)


def _config(service: Service, access: AccessControl, settings: ServeSettings) -> uvicorn.Config:
    limits = ConnectionLimits(
        connections=2 * settings.connections,
        read_seconds=settings.read_timeout,
        write_seconds=settings.write_timeout,
    )
    return uvicorn.Config(
        application(service, access),
        http=cast(Any, functools.partial(Connection, limits)),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        root_path=settings.root_path,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=round(settings.timeout) + 1,
    )


def _listen(settings: ServeSettings) -> socket.socket:
    with _naming_address(settings):
        family, *_, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    return listener


@contextmanager
def _naming_address(settings: ServeSettings) -> Iterator[None]:
    """Name the address in the error if it cannot be used."""
    try:
        yield
    except OSError as error:
        options = f"--host {settings.host} --port {settings.port}"
        raise UserError(f"{options}: {error.strerror or error}") from None

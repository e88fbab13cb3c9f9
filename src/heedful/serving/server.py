"""The server process: a socket, uvicorn, and the signals."""

import asyncio
import functools
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from heedful.errors import UserError
from heedful.serving.application import application
from heedful.serving.connection import Connection, ConnectionLimits
from heedful.serving.doors import KEY_VARIABLE, Doors, doors, is_open
from heedful.serving.loading import Loaded, load
from heedful.serving.logs import logging_json
from heedful.serving.service import Service
from heedful.settings import ServeSettings
from heedful.task import Say

_LONGEST_QUEUE = 128
"""Connections that the system may hold before they are accepted."""


def run(runs: Sequence[str], settings: ServeSettings, say: Say) -> None:
    """Serve until a signal says to stop; then answer what was accepted, and return.

    Raises:
        UserError: a run cannot be loaded, the address cannot be listened at, or the API key is
            none.
    """
    ways_in = doors(settings)
    if is_open(settings) and ways_in.key is None:
        say(
            f"warning: whoever can reach {settings.host} can use this server; "
            f"--api-key-file or {KEY_VARIABLE} asks them for a key"
        )
    with _listen(settings) as listener, _keeping_signals():
        # A run that is being loaded need not be read again.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        loaded = [load(run, settings) for run in runs]
        with logging_json():
            asyncio.run(_serve(loaded, settings, ways_in, listener, say))


@contextmanager
def _keeping_signals() -> Iterator[None]:
    """Put back at the end what SIGHUP and SIGTERM do."""
    handlers = {name: signal.getsignal(name) for name in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)


async def _serve(
    loaded: Sequence[Loaded],
    settings: ServeSettings,
    ways_in: Doors,
    listener: socket.socket,
    say: Say,
) -> None:
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    service = Service(loaded, settings, on_failure=fail)
    server = uvicorn.Server(_config(service, ways_in, settings))
    # uvicorn raises the signal that stopped it again, when it is done.
    signal.signal(signal.SIGTERM, server.handle_exit)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        reloads.add(task := asyncio.create_task(_reload(service, say)))
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    host, port = listener.getsockname()[:2]
    listener.listen(_LONGEST_QUEUE)
    address = f"[{host}]" if ":" in host else host
    say(f"serving {', '.join(service.runs)} at http://{address}:{port}{settings.root_path}")
    await server.serve(sockets=[listener])
    if failures:
        raise failures[0]


async def _reload(service: Service, say: Say) -> None:
    for line in await service.reload():
        say(line)


def _config(service: Service, ways_in: Doors, settings: ServeSettings) -> uvicorn.Config:
    limits = ConnectionLimits(
        connections=2 * settings.connections,
        read_seconds=settings.read_timeout,
        write_seconds=settings.write_timeout,
    )
    return uvicorn.Config(
        application(service, ways_in),
        http=cast(Any, functools.partial(Connection, limits)),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        root_path=settings.root_path,
        backlog=_LONGEST_QUEUE,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=round(settings.timeout) + 1,
    )


def _listen(settings: ServeSettings) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        where = f"--host {settings.host} --port {settings.port}"
        raise UserError(f"{where}: {error.strerror or error}") from None
    return listener

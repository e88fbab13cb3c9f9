"""The server process: a socket, uvicorn, and the signals."""

import asyncio
import socket
from collections.abc import Sequence

import uvicorn

from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.serving.application import application
from heedful.serving.service import Service
from heedful.settings import ServeSettings
from heedful.task import Say


def run(loaded: Sequence[tuple[str, Predictor]], settings: ServeSettings, say: Say) -> None:
    """Serve until a signal says to stop; then answer what was accepted, and return.

    Raises:
        UserError: the address cannot be listened at.
    """
    listener = _listen(settings)
    asyncio.run(_serve(loaded, settings, listener, say))


async def _serve(
    loaded: Sequence[tuple[str, Predictor]],
    settings: ServeSettings,
    listener: socket.socket,
    say: Say,
) -> None:
    service = Service(loaded, settings)
    config = uvicorn.Config(application(service), log_config=None, access_log=False)
    host, port = listener.getsockname()[:2]
    say(f"heedful: serving {', '.join(service.runs)} at http://{host}:{port}")
    await uvicorn.Server(config).serve(sockets=[listener])


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

"""The body of a request: read once within limits, then passed whole to the routes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.types import Message, Receive

_DISCARD_SECONDS = 2.0
_MAX_LOGGED = 10_000


class ClientLeftError(Exception):
    """The client has disconnected."""


@dataclass(kw_only=True, slots=True)
class ServerLoad:
    """The current load of a server."""

    requests: int = 0
    body_bytes: int = 0
    """Total size of the request bodies in memory."""


class Body:
    """The body of one request.

    Args:
        receive: the ASGI callable that returns its parts.
        load: counts the bytes in memory.
    """

    def __init__(self, receive: Receive, load: ServerLoad) -> None:
        self._receive = receive
        self._load = load
        self._held = 0
        self._replayed = False
        self._left = asyncio.Event()
        self.content = b""
        self.expected = True
        """Whether more of the body is still to be received."""

    @property
    def start(self) -> str:
        """The first bytes of the body as text, for the log."""
        return self.content[:_MAX_LOGGED].decode("utf-8", errors="backslashreplace")

    async def read(self) -> AsyncIterator[int]:
        """Read the body, and yield the number of bytes read so far after each part.

        Raises:
            ClientLeftError: the client disconnected before the end of the body.
        """
        parts = []
        while self.expected:
            parts.append(await self._next())
            self._held += len(parts[-1])
            self._load.body_bytes += len(parts[-1])
            yield self._held
        self.content = b"".join(parts)

    async def discard(self) -> None:
        """Read and drop the rest for a moment, so that the client can finish sending and read."""
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self.expected:
                    await self._next()
        except (TimeoutError, ClientLeftError):
            return

    def release(self) -> None:
        """Subtract the body from the bytes in memory."""
        self._load.body_bytes -= self._held
        self._held = 0

    async def replay(self) -> Message:
        """Return the whole body as an ASGI message; later, wait and return the disconnect."""
        if not self._replayed:
            self._replayed = True
            return {"type": "http.request", "body": self.content, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def wait_until_left(self) -> None:
        """Return once the client has disconnected or the response is complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        self.expected = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

"""The body of a request: read once within limits, then given to the routes in one piece."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.types import Message, Receive

_DISCARD_SECONDS = 2.0
_MOST_LOGGED = 10_000


class ClientLeftError(Exception):
    """Nobody is there to be answered."""


@dataclass(kw_only=True, slots=True)
class Load:
    """What a server is working on."""

    requests: int = 0
    body_bytes: int = 0
    """Of all bodies that are in memory."""


class Body:
    """The body of one request.

    Args:
        receive: gives its parts.
        load: counts what is in memory.
    """

    def __init__(self, receive: Receive, load: Load) -> None:
        self._receive = receive
        self._load = load
        self._held = 0
        self._replayed = False
        self._left = asyncio.Event()
        self.content = b""
        self.expected = True
        """Whether there is more to come."""

    @property
    def start(self) -> str:
        """What it begins with, for the log."""
        return self.content[:_MOST_LOGGED].decode("utf-8", errors="backslashreplace")

    async def read(self) -> AsyncIterator[int]:
        """Read the body, and yield after each part how many bytes it has so far.

        Raises:
            ClientLeftError: before all of it came.
        """
        parts = []
        while self.expected:
            parts.append(await self._next())
            self._held += len(parts[-1])
            self._load.body_bytes += len(parts[-1])
            yield self._held
        self.content = b"".join(parts)

    async def discard(self, most: int) -> None:
        """Read on for a moment, so that the client has sent all and reads what it is told."""
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                size = 0
                while self.expected and size < most:
                    size += len(await self._next())
        except (TimeoutError, ClientLeftError):
            return

    def forget(self) -> None:
        """Count the body as no longer in memory."""
        self._load.body_bytes -= self._held
        self._held = 0

    async def again(self) -> Message:
        """Give the routes the whole body, and then that the client has left, once it has."""
        if not self._replayed:
            self._replayed = True
            return {"type": "http.request", "body": self.content, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def wait_until_left(self) -> None:
        """Return when the client has left, or has its answer."""
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

"""One connection: uvicorn's HTTP protocol, with the time limits that uvicorn lacks.

uvicorn closes a connection that is idle after a response, and rejects request heads of over 16 KiB.
But it waits forever for the head of a request, and for a client that does not read its response.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """Limits of connections."""

    connections: int
    """Maximum number of connections; further ones are dropped."""
    read_seconds: float
    """Timeout for receiving the head of a request."""
    write_seconds: float
    """Timeout for the client to read the next part of a response."""


class Connection(H11Protocol):
    """A connection with limits.

    Args:
        limits: the limits.
        config: uvicorn's configuration.
        server_state: uvicorn's state, shared by its connections.
        app_state: state of the application.
        _loop: the event loop, if uvicorn passes one.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the head timeout, or drop the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            transport.abort()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel both timeouts."""
        self._stop_reading()
        self._stop_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data, and keep the head timeout until the head is complete."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_reading()

    def pause_writing(self) -> None:
        """Start the write timeout: the client must read."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Cancel the write timeout: the client has read."""
        super().resume_writing()
        self._stop_writing()

    def on_response_complete(self) -> None:
        """Start the write timeout if a part of the response is still unsent."""
        if self.transport.get_write_buffer_size():
            self._await_reader()
        super().on_response_complete()

    def _await_head(self) -> None:
        if self._reading is None and not self.transport.is_closing():
            self._reading = self.loop.call_later(self._limits.read_seconds, self.transport.abort)

    def _await_reader(self) -> None:
        if self._writing is None:
            unsent = self.transport.get_write_buffer_size()
            self._writing = self.loop.call_later(
                self._limits.write_seconds, self._check_reader, self.cycle, unsent
            )

    def _check_reader(self, cycle: RequestResponseCycle, unsent: int) -> None:
        """Drop a client that has not read any of its response.

        If it has read a part, or has gone on to its next response, restart the timeout instead.

        Args:
            cycle: the request whose response was sent when the timeout started.
            unsent: number of bytes that were unsent then.
        """
        self._writing = None
        if size := self.transport.get_write_buffer_size():
            if self.cycle is cycle and size >= unsent:
                self.transport.abort()
            else:
                self._await_reader()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

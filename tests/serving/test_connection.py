"""The server enforces the limits of a connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra [serve]")

import uvicorn
from uvicorn.server import ServerState

from heedful.serving.connection import Connection, ConnectionLimits

pytestmark = pytest.mark.anyio
PARTS = 400
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def much(scope: Any, receive: Any, send: Any) -> None:
    """Answer with 40 MB."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(PARTS):
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def listening(app: Any = much, **limits: Any) -> AsyncIterator[tuple[int, ServerState]]:
    """Listen with connections of these limits; give the port and what they share."""
    state = ServerState()
    config = uvicorn.Config(app, log_config=None)
    config.load()
    kept = ConnectionLimits(**{"connections": 9, "read_seconds": 60, "write_seconds": 60, **limits})
    make = partial(Connection, kept, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], state
    for connection in list(state.connections):
        connection.transport.abort()  # type: ignore[union-attr]
    await asyncio.gather(*state.tasks)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the other side closes."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_one_connection_too_many_is_dropped() -> None:
    async with listening(connections=2) as (port, state):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        while len(state.connections) < 2:
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await rest(reader) == b""
        kept[0][1].write(ASK)
        assert (await kept[0][0].readline()).startswith(b"HTTP/1.1 200 ")
        for _, writer_ in (*kept, (reader, writer)):
            writer_.close()


@pytest.mark.parametrize("data", [b"", b"GET /", ASK[:-1]])
async def test_a_head_that_does_not_come_ends_the_connection(data: bytes) -> None:
    async with listening(read_seconds=0.05) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        assert await rest(reader) == b""
        writer.close()


async def test_a_head_in_parts_is_waited_for() -> None:
    async with listening(read_seconds=30) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start in range(0, len(ASK), 5):
            writer.write(ASK[start : start + 5])
            await writer.drain()
            await asyncio.sleep(0.005)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_who_does_not_read_is_dropped() -> None:
    async with listening(write_seconds=0.05) as (port, state):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(ASK)
        while not state.connections:
            await asyncio.sleep(0.001)
        while state.connections:  # the reader above takes no more than twice its limit
            await asyncio.sleep(0.01)
        assert len(await rest(reader)) < PARTS * 100_000
        writer.close()


async def whole(scope: Any, receive: Any, send: Any) -> None:
    """Answer with 40 MB at once."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * PARTS * 100_000})


async def test_who_reads_steadily_gets_all_in_however_long() -> None:
    async with listening(whole, write_seconds=0.2) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000_000)
        writer.write(ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        started, size = asyncio.get_running_loop().time(), 0
        while part := await reader.read(1_000_000):
            size += len(part)
            await asyncio.sleep(0.02)
        assert asyncio.get_running_loop().time() - started > 0.4
        assert size > PARTS * 100_000
        writer.close()


async def test_who_reads_slowly_gets_all() -> None:
    async with listening(write_seconds=20) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK + ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert len(await rest(reader)) > 2 * PARTS * 100_000
        writer.close()

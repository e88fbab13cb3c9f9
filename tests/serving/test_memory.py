"""The memory of a server stays constant: it returns free memory to the system."""

import asyncio
import threading

import pytest
from tests.serving.inside import service_of

from heedful.serving import memory

SECONDS = 60


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_free_memory_is_returned_again_and_again(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = threading.Semaphore(0)
    monkeypatch.setattr(memory, "RETURN_SECONDS", 0.001)
    monkeypatch.setattr(memory, "return_free_memory", returned.release)
    async with service_of("classify"):
        for _ in range(2):
            assert await asyncio.to_thread(returned.acquire, timeout=SECONDS)

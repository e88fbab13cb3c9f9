"""The memory of a server stays flat: few kernels are kept, and free memory goes back."""

import asyncio
import os
import threading

import pytest
from tests.serving.inside import service_of

from heedful.errors import UserError
from heedful.serving import memory, server
from heedful.settings import ServeSettings

SECONDS = 60
ONEDNN, TORCH = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"


def test_few_kernels_are_kept_unless_the_user_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LoadingError(UserError):
        """A run is being loaded."""

    def load(run: str, settings: ServeSettings) -> None:
        raise LoadingError(run)

    monkeypatch.setattr(server, "load", load)
    monkeypatch.setenv(ONEDNN, "7")
    monkeypatch.setenv(TORCH, "7")
    monkeypatch.delenv(TORCH)
    with pytest.raises(LoadingError):
        server.run(["run"], ServeSettings(port=0), print)
    assert os.environ[ONEDNN] == "7"
    assert 0 < int(os.environ[TORCH]) < 1024


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

"""A service in this process, over small runs of ``tests/golden``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from heedful.predictor import Predictor
from heedful.serving.access import access_control
from heedful.serving.application import application
from heedful.serving.loading import Loaded, load
from heedful.serving.service import Service
from heedful.settings import ServeSettings

RUNS = Path(__file__).parents[1] / "golden" / "0.1.0"
TEXTS: dict[str, list[Any]] = {
    "classify": ["the red cat sleeps", "the bread tastes", "the very white tower stands " * 6, "a"],
    "many": ["the red cat and the blue soup", "it is white", ""],
    "pair": [("the cat is red", "yes, it is"), ("the dog is blue", "who says so? here")],
    "regress": ["the bird is very very red", "the bird is green", "the soup is red " * 9],
    "tag": ["Ann is in Paris", "Dan Miller lives near New Lima", "@Ann went, alone, to U.S.A."],
    "answer": [("who eats?", "Carla eats cheese in Oslo."), ("when is it?", "Ben eats soup. " * 9)],
    "choose": [("what sleeps?", "the soup", "the bird"), ("what stands?", "a tower", "a", "an")],
    "embed": ["the red cat sleeps", "a cat, red", "the very white tower stands " * 9],
    "sentences": ["the red cat sleeps", "a cat, red"],
    "pretrain": ["the [MASK] is red. it is very [MASK].", "the cat is [MASK]."],
    "writer": ["the dog likes", "the bird"],
    "replies": ["cat, red", "horse, white"],
    "translate": ["Das hund ist rot!", "Das katze sieht das pferd!", "Das hund mag das hund!"],
    "gru": ["Das hund ist rot!", "Das katze sieht das pferd!"],
    "marian": ["Das hund ist rot!"],
}
"""What each run may be asked; long texts among them."""


@cache
def loaded(name: str) -> Loaded:
    """Load a run once for all tests."""
    return load(str(RUNS / name), ServeSettings(precision="fp32"))


@asynccontextmanager
async def service_of(*names: str, started: bool = True, **settings: Any) -> AsyncIterator[Service]:
    """Give a service whose lanes run and are warm, or that waits for `start`."""
    runs = [loaded(name) for name in names]
    async with service_of_loaded(*runs, started=started, **settings) as service:
        yield service


@asynccontextmanager
async def service_of_loaded(
    *runs: Loaded, started: bool = True, **settings: Any
) -> AsyncIterator[Service]:
    """Give a service of runs that are loaded."""
    settings = {"precision": "fp32", "queue_seconds": 1e6, **settings}  # however slow the machine
    failures: list[BaseException] = []
    service = Service(runs, ServeSettings(**settings), on_failure=failures.append)
    if started:
        service.start()
        while not service.ready:
            assert not failures
            await asyncio.sleep(0.001)
    for served in service.runs.values():
        served.warm = True
    try:
        yield service
    finally:
        await service.close()


def client_of(service: Service) -> httpx.AsyncClient:
    """Return a client that calls a service without a socket."""
    app = application(service, access_control(service.settings))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def records(predictor: Predictor, texts: list[Any]) -> list[Any]:
    """Make a record of each text; a question's choices come one by one."""
    return [record for text in texts for record in predictor.task.from_texts([text])]


def rows(answers: list[Any]) -> list[dict[str, Any]]:
    """Return all fields of answers."""
    return [answer.to_dict(everything=True) for answer in answers]

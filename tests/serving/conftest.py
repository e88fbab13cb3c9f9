"""A server, on a free port, over small runs of ``tests/golden``."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.browser import Browser

import heedful
from heedful import files
from heedful.predictor import Predictor

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
SERVED = (
    *("classify", "many", "pair", "nli", "ranker", "embed", "tag", "answer"),
    *("choose", "pretrain", "masked", "translate", "replies", "regress"),
)
OPTIONS = ("--precision", "fp32", "--port", "0")
SECONDS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """A server's address, and the answers of its runs in Python."""

    url: str
    load: Callable[[str], Predictor]


def _with_goal(folder: Path, name: str, run: str, **goal: Any) -> None:
    """Copy a run, as if trained on other data."""
    shutil.copytree(GOLDEN / run, folder / name)
    path = folder / name / "heedful.json"
    record = json.loads(path.read_text("utf-8"))
    record["goal"] |= goal
    path.write_text(json.dumps(record), "utf-8")
    (folder / name / files.MANIFEST).unlink()
    files.write_manifest(folder / name)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Provide the folders of `SERVED`."""
    folder = tmp_path_factory.mktemp("runs")
    _with_goal(folder, "nli", "pair", labels=["contradiction", "neutral", "entailment"])
    _with_goal(folder, "ranker", "regress", pairs=True)
    made = {path.name: path for path in folder.iterdir()}
    return {name: made.get(name, GOLDEN / name) for name in SERVED}


@pytest.fixture(scope="session")
def live(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Serve the runs in a separate process."""
    with serving(runs, tmp_path_factory.mktemp("server") / "log") as server:
        yield server


@contextmanager
def serving(runs: dict[str, Path], log: Path) -> Iterator[Live]:
    """Serve runs in a separate process.

    Args:
        runs: their folders, by their names.
        log: a file for what the server says.
    """
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    pytest.importorskip("uvicorn", reason="needs the extra [serve]")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "heedful", "serve", *map(str, runs.values()), *OPTIONS],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Live(
            url=_address(process, log),
            load=cache(lambda name: heedful.load(runs[name], precision="fp32")),
        )
    finally:
        process.terminate()
        process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server is ready, and return its address."""
    ends = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < ends:
        said = log.read_text("utf-8")
        if '"ready"' in said:
            address = re.search(r"http://\S+", said)
            assert address, said
            return address[0]
        time.sleep(0.02)
    raise AssertionError(log.read_text("utf-8"))


@pytest.fixture
def page(chromium: Browser, live: Live) -> Iterator[Browser]:
    """Provide a browser, and check that its pages log no errors and load nothing from elsewhere."""
    yield chromium
    driver = chromium.driver
    loaded = driver.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in loaded if not name.startswith((live.url, "data:", "blob:"))] == []
    assert chromium.complaints() == []


@pytest.fixture(scope="module")
def online() -> Iterator[None]:
    """Let Hugging Face's client use the network, which other tests forbid."""
    pytest.importorskip("huggingface_hub", reason="needs Hugging Face's client")
    reset = importlib.import_module("huggingface_hub.utils._http").reset_sessions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        reset()
        yield
    reset()

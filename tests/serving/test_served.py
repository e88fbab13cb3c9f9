"""A server process of its own answers what the runs do."""

import contextlib
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import heedful

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("uvicorn", reason="needs the extra [serve]")

RUNS = Path(__file__).parents[1] / "golden" / "0.1.0"
SECONDS = 60


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a server on a free port, and yield its address and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "heedful", "serve", *arguments, "--port", "0"],
        cwd=RUNS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            assert select.select([process.stderr], [], [], SECONDS)[0], "it said nothing"
            line = process.stderr.readline()
            address = re.search(r"http://\S+", line)
            assert address, line + process.stderr.read()
            yield address[0], process
        finally:
            process.kill()


def test_a_server_answers_as_predict_does() -> None:
    texts = ["the red cat sleeps", "the bread tastes"]
    expected = [answer.to_dict() for answer in heedful.load(RUNS / "classify")(texts)]
    with serving("classify", "embed") as (address, _), httpx.Client(base_url=address) as client:
        for _ in range(SECONDS * 10):
            reply = client.post("/api/runs/classify/predict", json={"texts": texts})
            if reply.status_code != 503:
                break
        assert [row["name"] for row in client.get("/api/runs").json()["runs"]] == [
            *("classify", "embed")
        ]
    assert reply.status_code == 200
    assert reply.json() == {"answers": expected}

"""Streaming runs: killed and resumed, with one process or two, and wrong input."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.exact import assert_same_bits
from tests.training.test_many_processes import ENVIRONMENT

from heedful.batches import corpus
from heedful.cli import run

Out = pytest.CaptureFixture[str]

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
COMMAND = [
    *("train", "pretrain", "--stream", "--train", "shards/*.txt", "--model", str(GOLDEN / "body")),
    *("--max-length", "24", "--objective", "mlm", "--dropout", "0", "--precision", "fp32"),
    *("--steps", "24", "--batch-size", "4", "--shuffle-buffer", "12", "--checkpoint-every", "5"),
]
DRIVER = """
import json, os, signal, sys
from heedful.batches import corpus
from heedful.cli import run
from heedful.training import ranks, stream

corpus._CHUNK_CHARACTERS = 200
fetch, calls = stream.Stream.fetch, 0

def counted(self, items, filling):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return fetch(self, items, filling)

stream.Stream.fetch = counted
with ranks.together():
    sys.exit(run(json.loads(sys.argv[2])))
"""


@pytest.fixture(autouse=True)
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a small text in three shards of several chunks each."""
    monkeypatch.setattr(corpus, "_CHUNK_CHARACTERS", 200)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shards").mkdir()
    documents = (GOLDEN / "data" / "pretrain.txt").read_text().split("\n\n")
    for shard in range(3):
        text = "\n\n".join(documents[shard::3])
        (tmp_path / "shards" / f"{shard}.txt").write_text(text + "\n")
    return tmp_path


def driven(processes: int, kill_at: int, words: list[str]) -> list[int]:
    """Train in separate processes, which die at certain batches."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(kill_at), json.dumps(words)],
            env=ENVIRONMENT | meeting | {"RANK": str(rank)},
            stderr=subprocess.DEVNULL,
        )
        for rank in range(processes)
    ]
    return [process.wait(100) for process in ranks]


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been() -> None:
    assert run([*COMMAND, "--out", "whole"]) == 0
    assert driven(1, 13, [*COMMAND, "--out", "killed"]) == [-signal.SIGKILL]
    newest = max(Path("killed/checkpoints").iterdir(), key=lambda path: int(path.name[5:]))
    state = json.loads((newest / "state.json").read_text())
    assert state["stream"]["row"] > 0
    shutil.copytree("killed", "two")
    # What is kept of tokens changes nothing.
    assert run([*COMMAND, "--out", "killed", "--corpus", "cache", "--resume"]) == 0
    assert list(Path("cache").iterdir())
    whole = load_file("whole/model.safetensors")
    assert_same_bits(load_file("killed/model.safetensors"), whole, "same code")
    rows = logged("whole")
    assert [row["epoch"] for row in rows] == sorted(row["epoch"] for row in rows)
    assert rows[-1]["epoch"] == 1
    # Two processes go on with the same steps, each reading shards of its own.
    assert driven(2, -1, [*COMMAND, "--out", "two", "--resume"]) == [0, 0]
    for out in ("killed", "two"):
        for step, other in zip(logged(out), rows, strict=True):
            assert (step["step"], step["epoch"], step["tokens"]) == (
                other["step"],
                other["epoch"],
                other["tokens"],
            )
            assert step["loss"] == pytest.approx(other["loss"], abs=1e-3)


def logged(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]


def test_a_changed_shard_is_named(capsys: Out) -> None:
    assert run([*COMMAND[:-2], "--checkpoint-every", "2", "--out", "run"]) == 0
    lines = capsys.readouterr().err
    assert "3 shards, read by stream, 24 steps of 4" in lines
    assert re.search(r"an epoch has about \d\d steps", lines)
    Path("run/manifest.json").unlink()
    shard = Path("shards/1.txt")
    text = shard.read_text()
    shard.write_text(text.replace("red", "tan"))
    assert run([*COMMAND[:-2], "--checkpoint-every", "2", "--out", "run", "--resume"]) == 2
    assert "its files have changed: shards/1.txt" in capsys.readouterr().err
    shard.write_text(text)
    assert run([*COMMAND[:-2], "--checkpoint-every", "2", "--out", "run", "--resume"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shuffle-buffer", "3"], "must hold --batch-size 4"),
        (["--masking", "entity"], "give --phrases"),
        (["--train", "none/*.txt"], "none/*.txt: no file matches this pattern"),
        (["--train", "s3x://a/b.txt"], "s3x://a/b.txt: Protocol not known"),
        (["--prune", "0.5"], "--prune is for a run"),
    ],
)
def test_what_is_wrong_is_told(options: list[str], message: str, capsys: Out) -> None:
    at = COMMAND.index(options[0]) if options[0] in COMMAND else len(COMMAND)
    command = [*COMMAND[:at], *COMMAND[at + 2 :]]
    assert run([*command, "--out", "run", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()


def test_steps_are_asked_for(capsys: Out) -> None:
    at = COMMAND.index("--steps")
    assert run([*COMMAND[:at], *COMMAND[at + 2 :], "--out", "run"]) == 2
    assert "--stream: give --steps" in capsys.readouterr().err
    assert not Path("run").exists()

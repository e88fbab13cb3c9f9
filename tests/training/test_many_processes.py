"""Two processes train what one does: the same weights, scores and files, and on after a stop."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.golden.cases import CURVES

from heedful.checkpoints import runs

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).parent / "many_driver.py"
OPTIONS = ["--steps", "10", "--dropout", "0", "--seed", "3", "--precision", "fp32"]
NAMES = ["classify-dev", "tag", "choose", "embed", "pretrain", "translate-dev"]
SHARDED = ["classify-ema", "classify-recomputed", "pretrain", "translate-dev", "translate-gru"]
TOLERANCE = 1e-9
"""AdamW divides by the gradient's size, which enlarges what the order of sums changes."""


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def program(trainings: Sequence[Sequence[str]]) -> list[str]:
    return [sys.executable, str(DRIVER), json.dumps(trainings)]


def torchrun(trainings: Sequence[Sequence[str]]) -> list[str]:
    python, *words = program(trainings)
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]


def start(folder: Path, processes: int, trainings: Sequence[Sequence[str]]) -> tuple[int, str]:
    """Train in a folder that holds the golden runs.

    Returns:
        The exit code, and what was written to standard error.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    ranks = [
        subprocess.Popen(
            program(trainings),
            cwd=folder,
            env=ENVIRONMENT | meeting | {"RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    lines = [process.communicate(timeout=600)[1] for process in ranks]
    return ranks[0].returncode, "".join(lines)


def training(name: str, out: str, *options: str) -> list[str]:
    return ["train", *CURVES[name], *OPTIONS, "--out", out, *options]


def long_training(out: str, *options: str) -> list[str]:
    """A training with dropout that writes many checkpoints."""
    often = ["--steps", "50", "--checkpoint-every", "5", "--seed", "3", "--precision", "fp32"]
    return ["train", *CURVES["classify"], *often, "--out", out, *options]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def differs(first: Path, second: Path) -> float:
    """Return the greatest difference between the weights of two runs."""
    ours, others = (load_file(run / "model.safetensors") for run in (first, second))
    assert ours.keys() == others.keys()
    return max(float((ours[name] - others[name]).abs().max()) for name in ours)


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one process and of two, and what goes on from a run whose process was killed."""
    folder: Path = tmp_path_factory.mktemp("many") / "work"
    shutil.copytree(Path(__file__).parents[1] / "golden/0.1.0", folder)
    kill(folder, "killed")
    for run in ("one", "two"):
        shutil.copytree(folder / "killed", folder / run)
    one = [training(name, f"1/{name}") for name in {*NAMES, *SHARDED}]
    code, lines = start(folder, 1, [*one, long_training("one", "--resume")])
    assert code == 0, lines
    (folder / "1.log").write_text(lines)
    two = [training(name, f"2/{name}") for name in NAMES]
    two += [training(name, f"sharded/{name}", "--shard") for name in SHARDED]
    longer = [long_training("two", "--resume"), long_training("whole")]
    code, lines = start(folder, 2, [*two, *longer, training("tag", "1/tag")])
    assert code == 2, lines
    (folder / "2.log").write_text(lines)
    return folder


def kill(folder: Path, run: str) -> None:
    """Kill one of two processes after some steps."""
    with subprocess.Popen(
        torchrun([long_training(run)]), cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL
    ) as process:
        checkpoints = folder / run / "checkpoints"
        wait_until(lambda: any(checkpoints.glob("step-*/manifest.json")))
        os.kill(int((folder / "rank-1.pid").read_text()), signal.SIGKILL)
        assert process.wait(60) != 0
    assert not runs.is_finished(folder / run)


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_learn_what_one_does(work: Path, name: str) -> None:
    weights = load_file(work / "1" / name / "model.safetensors")
    assert all(tensor.dtype is torch.float64 for tensor in weights.values())
    assert differs(work / "1" / name, work / "2" / name) < TOLERANCE


@pytest.mark.parametrize("name", SHARDED)
def test_a_divided_model_learns_what_a_whole_one_does(work: Path, name: str) -> None:
    assert differs(work / "1" / name, work / "sharded" / name) < TOLERANCE


def test_losses_and_scores_are_those_of_one_process(work: Path) -> None:
    for name in ("classify-dev", "translate-dev"):
        one, two = (read_rows(work / count / name / runs.METRICS) for count in ("1", "2"))
        assert [row["step"] for row in one] == [row["step"] for row in two]
        for first, second in zip(one, two, strict=True):
            assert first.get("tokens") == second.get("tokens")
            assert first.get("loss") == pytest.approx(second.get("loss"), abs=TOLERANCE)
            assert first.get("dev") == pytest.approx(second.get("dev"), abs=TOLERANCE)


def test_one_process_speaks(work: Path) -> None:
    for name in NAMES:
        assert (work / "2.log").read_text().count(f"the model is in 2/{name}\n") == 1


def test_a_run_goes_on_after_a_process_was_killed(work: Path) -> None:
    assert "going on from two/checkpoints/step-" in (work / "2.log").read_text()
    # Dropout is drawn by each process for itself, and goes on where it was.
    assert differs(work / "two", work / "whole") == 0


def test_another_number_of_processes_goes_on(work: Path) -> None:
    assert "going on from one/checkpoints/step-" in (work / "1.log").read_text()
    assert runs.is_finished(work / "one")


def test_what_is_wrong_is_said(work: Path) -> None:
    lines = (work / "2.log").read_text()
    assert "heedful: --out 1/tag holds a finished run" in lines
    assert "heedful: process 1: --out 1/tag holds a finished run" in lines

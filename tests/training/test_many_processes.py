"""Several processes train as one does: the same weights, scores and files, also after a stop.

Those that are killed are drawn anew each time; a failure names the number that they come from.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tests.golden.cases import CURVES
from tests.holding import held_elsewhere
from tests.tiny_folders import write_folder

from heedful.checkpoints import runs

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).parent / "many_driver.py"
OPTIONS = ["--steps", "10", "--dropout", "0", "--seed", "3", "--precision", "fp32"]
NAMES = ["classify-dev", "tag", "choose", "embed", "pretrain", "translate-dev"]
KILLS = int(os.environ.get("HEEDFUL_KILLS", "2"))
SHARDED = ["classify-ema", "classify-recomputed", "pretrain", "translate-dev", "translate-gru"]
OVERLAPPED = ["generate", "translate-separate"]
LEARN = ("--learning-rate", "2e-3", "--batch-size", "7", "--max-length", "40")
SHARDS = ("--stream", "--train", "data/pretrain.txt", "data/generate.txt", "--shuffle-buffer", "16")
MORE: dict[str, tuple[str, ...]] = {
    "pictures": (
        *("classify", "--format", "images", "--train", "pictures", "--preset", "mini"),
        *("--image-size", "16", "--patch-size", "8", "--batch-size", "7"),
    ),
    "taught": (
        *("classify", "--train", "data/classify.csv", "--teacher", "classify"),
        *("--student-layers", "1", "--hidden-weight", "0.5", "--batch-size", "7"),
    ),
    "replaced": (
        *("pretrain", "--objective", "rtd", *SHARDS, "--arch", "deberta-v2", "--preset", "tiny"),
        *("--vocabulary", "models/deberta-v2", "--gradient-checkpointing", *LEARN),
    ),
    "any-order": (
        *("pretrain", "--objective", "plm", "--train", "data/pretrain.txt"),
        *("--model", "models/xlnet", "--batch-tokens", "100", *LEARN),
    ),
    "shared-blocks": (
        *("answer", "--train", "data/answer.jsonl", "--model", "models/albert", "--stride", "8"),
        *("--gradient-checkpointing", "--batch-tokens", "100", *LEARN),
    ),
    "sparse": ("pretrain", "--objective", "mlm", *SHARDS, "--model", "models/big_bird", *LEARN),
    "next-words": (
        *("pretrain", "--objective", "clm", "--train", "data/pretrain.txt"),
        *("--model", "models/gpt2", *LEARN),
    ),
}
"""Of families and of what a run learns that is in no golden run."""
MORE_SHARDED = ["pictures", "taught", "replaced", "shared-blocks"]
UNPADDED = ["classify-dev", "tag", "pretrain", "translate-dev"]
FEWER = ["classify-ema", "pretrain"]
TOLERANCE = 1e-9
"""AdamW divides by the gradient's size, which enlarges what the order of sums changes."""


TESTS = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "NO_COLOR": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
}


def program(trainings: Sequence[Sequence[str]]) -> list[str]:
    return [sys.executable, str(DRIVER), json.dumps(trainings)]


def torchrun(trainings: Sequence[Sequence[str]]) -> list[str]:
    python, *words = program(trainings)
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", str(KILLS)]
    return [python, "-m", "torch.distributed.run", *options, *words]


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
    return ["train", *(CURVES | MORE)[name], *OPTIONS, "--out", out, *options]


def long_training(out: str) -> list[str]:
    """A training with dropout that writes many checkpoints."""
    steps = ["--steps", str(40 * KILLS), "--checkpoint-every", "5"]
    rest = [
        "--seed",
        "3",
        "--precision",
        "fp32",
        "--dev",
        "data/classify.csv",
        "--evaluate-every",
        "20",
    ]
    return ["train", *CURVES["classify"], *steps, *rest, "--out", out]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def differs(first: Path, second: Path) -> float:
    """Return the largest difference between the weights of two runs."""
    ours, others = (load_file(run / "model.safetensors") for run in (first, second))
    assert ours.keys() == others.keys()
    return max(float((ours[name] - others[name]).abs().max()) for name in ours)


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_more(folder: Path) -> None:
    """Write the models that the trainings of ``MORE`` start from."""
    for family in ("albert", "big_bird", "deberta-v2", "gpt2", "xlnet"):
        write_folder(family, folder / "models" / family)
    for number in range(20):
        picture = folder / "pictures" / "ab"[number % 2] / f"{number}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        Image.linear_gradient("L").rotate(18 * number).resize((20, 20)).save(picture)


@dataclass(frozen=True)
class Killed:
    """The results of a job whose processes were killed."""

    seed: int
    victims: list[tuple[str, int, int]]
    """Moment, number and pid of each."""
    lines: str


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one process, two and four, and one that resumes with four, two and one."""
    folder: Path = tmp_path_factory.mktemp("many") / "work"
    shutil.copytree(Path(__file__).parents[1] / "golden/0.1.0", folder)
    write_more(folder)
    fewer = training("classify", "fewer", "--resume")
    single = {count: ["float32", *training("classify", f"{count}/single")] for count in (1, 2, 4)}
    parts = [training(name, f"fewer-{name}", "--shard", "--resume") for name in FEWER]
    four = [["until", "3", "SIGUSR1", *words] for words in (fewer, *parts)]
    code, lines = start(folder, 4, [single[4], *four])
    assert code == 0, lines
    (folder / "4.log").write_text(lines)
    two = [training(name, f"2/{name}") for name in [*NAMES, *MORE]]
    two += [training(name, f"sharded/{name}", "--shard") for name in [*SHARDED, *MORE_SHARDED]]
    few = ("--batch-tokens", "64")
    two += [["overlap", *training(name, f"overlapped/{name}", *few)] for name in OVERLAPPED]
    two += [["texts", *training(name, f"texts/{name}")] for name in UNPADDED]
    narrow = ["train", *CURVES["tag"], "--steps", "4", "--dropout", "0", "--precision", "bf16"]
    for options in ((), ("--shard",)):
        out = "".join(["texts/narrow", *options])
        two.append(["texts", "bfloat16", *narrow, "--out", out, *options])
    two += [["until", "7", "SIGTERM", *words] for words in (fewer, *parts)]
    more = [single[2], long_training("whole")]
    code, lines = start(folder, 2, [*two, *more, training("tag", "2/tag")])
    assert code == 2, lines
    (folder / "2.log").write_text(lines)
    names = sorted({"classify", *NAMES, *SHARDED, *OVERLAPPED, *MORE})
    one = [training(name, f"1/{name}") for name in names]
    code, lines = start(folder, 1, [*one, single[1], fewer, *parts])
    assert code == 0, lines
    (folder / "1.log").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def killed(work: Path) -> Killed:
    """A job of two processes of which one is killed again and again, at any moment."""
    seed = int(os.environ.get("HEEDFUL_SEED", random.randrange(10**6)))
    dice, victims, pids = random.Random(seed), [], list[int]()
    for file in work.glob("rank-*.pid"):
        file.unlink()
    with (
        (work / "killed.log").open("w") as log,
        subprocess.Popen(
            torchrun([long_training("killed")]), cwd=work, env=ENVIRONMENT, stderr=log
        ) as process,
    ):
        for _ in range(KILLS):
            moment, victim = dice.choice(sorted(MOMENTS)), dice.randrange(2)
            pids, now = new_pids(work, pids), time.time()
            wait_until(partial(MOMENTS[moment], work / "killed", now))
            time.sleep(dice.uniform(0, 0.3 if moment == "step" else 0.03))
            os.kill(pids[victim], signal.SIGKILL)
            victims.append((moment, victim, pids[victim]))
        code = process.wait(600)
    assert code == 0, (seed, victims, (work / "killed.log").read_text())
    return Killed(seed, victims, (work / "killed.log").read_text())


def was_written(paths: Iterable[Path], since: float) -> bool:
    """Return whether any of some paths, which may vanish, is newer than a time."""
    for path in paths:
        with suppress(FileNotFoundError):
            if path.stat().st_mtime > since:
                return True
    return False


MOMENTS: dict[str, Callable[[Path, float], bool]] = {
    "set-up": lambda run, since: True,
    "step": lambda run, since: was_written([run / runs.METRICS], since),
    "checkpoint": lambda run, since: was_written(run.glob("checkpoints/.step-*"), since),
}
"""What to wait for before a process is killed, in the run folder and since a time."""


def new_pids(folder: Path, old: Sequence[int]) -> list[int]:
    """Wait until two new processes have connected, and return their ids."""

    def pids() -> list[int]:
        files = [folder / f"rank-{rank}.pid" for rank in range(2)]
        return [int(file.read_text()) for file in files if file.is_file()]

    wait_until(lambda: len(now := pids()) == 2 and not {*now} & {*old})
    return pids()


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_two_processes_learn_what_one_does(work: Path, name: str) -> None:
    weights = load_file(work / "1" / name / "model.safetensors")
    assert all(tensor.dtype is torch.float64 for tensor in weights.values())
    assert differs(work / "1" / name, work / "2" / name) < TOLERANCE


@pytest.mark.parametrize("name", [*SHARDED, *MORE_SHARDED])
def test_a_divided_model_learns_what_a_whole_one_does(work: Path, name: str) -> None:
    assert differs(work / "1" / name, work / "sharded" / name) < TOLERANCE


@pytest.mark.parametrize("name", OVERLAPPED)
def test_gradients_exchanged_while_computed_are_the_same(work: Path, name: str) -> None:
    assert differs(work / "1" / name, work / "overlapped" / name) < TOLERANCE


@pytest.mark.parametrize("name", UNPADDED)
def test_texts_attend_without_padding_in_several_processes(work: Path, name: str) -> None:
    assert differs(work / "1" / name, work / "texts" / name) < TOLERANCE


@pytest.mark.parametrize("name", FEWER)
def test_parts_go_on_with_half_the_processes_and_again(work: Path, name: str) -> None:
    for log, step in (("2.log", 3), ("1.log", 7)):
        line = f"resuming from fewer-{name}/checkpoints/step-{step}\n"
        assert line in (work / log).read_text()
    assert differs(work / "1" / name, work / f"fewer-{name}") < TOLERANCE


def test_each_process_writes_its_part_of_a_checkpoint(work: Path) -> None:
    checkpoint = work / "sharded/classify-ema/checkpoints/step-10"
    for part in ("model", "average", "optimizer"):
        first, second = (
            [path.stat().st_size for path in (checkpoint / part).glob(f"shard-0000{number}-*")]
            for number in (1, 2)
        )
        assert len(first) > 1
        assert len(second) > 1
        assert sum(first) == pytest.approx(sum(second), rel=0.2)


def test_losses_and_scores_are_those_of_one_process(work: Path) -> None:
    for name in ("classify-dev", "translate-dev"):
        one, two = (read_rows(work / count / name / runs.METRICS) for count in ("1", "2"))
        assert [row["step"] for row in one] == [row["step"] for row in two]
        for first, second in zip(one, two, strict=True):
            assert first.get("tokens") == second.get("tokens")
            assert first.get("loss") == pytest.approx(second.get("loss"), abs=TOLERANCE)
            # Answers are computed in float32, and here beside others.
            assert first.get("dev") == pytest.approx(second.get("dev"), abs=1e-6)


def test_one_process_speaks(work: Path) -> None:
    log = (work / "2.log").read_text()
    for name in NAMES:
        assert log.count(f"the model is in 2/{name}\n") == 1
    assert log.count("body: fresh weights, to be trained: classifier\n") == 1


def test_a_killed_job_goes_on_by_itself(work: Path, killed: Killed) -> None:
    # Dropout is drawn by each process for itself, and goes on where it was.
    assert differs(work / "killed", work / "whole") == 0, (killed.seed, killed.victims)
    steps = [row["step"] for row in read_rows(work / "killed" / runs.METRICS) if "loss" in row]
    assert steps == list(range(1, 40 * KILLS + 1))


def test_the_process_that_was_killed_is_named_once(killed: Killed) -> None:
    said = [line for line in killed.lines.splitlines() if line.startswith("heedful: ")]
    assert len(said) == KILLS, (killed.seed, killed.lines)
    for line, (_, rank, pid) in zip(said, killed.victims, strict=True):
        assert line.startswith(f"heedful: process {rank} (pid {pid}, ")
        assert line.endswith(" is gone: it was killed; start all of them again")
    assert "RuntimeError" not in killed.lines


def test_four_processes_then_two_then_one_go_on_as_one(work: Path) -> None:
    logs = {count: (work / f"{count}.log").read_text() for count in (1, 2, 4)}
    assert "another process: stopped after step 3 of 10; the same command" in logs[4]
    assert "resuming from fewer/checkpoints/step-3\n" in logs[2]
    assert "another process: stopped after step 7 of 10; the same command" in logs[2]
    assert "resuming from fewer/checkpoints/step-7\n" in logs[1]
    assert differs(work / "1/classify", work / "fewer") < TOLERANCE
    rows = [read_rows(work / run / runs.METRICS) for run in ("1/classify", "fewer")]
    for once, fewer in zip(*rows, strict=True):
        assert once["tokens"] == fewer["tokens"]
        assert once["loss"] == pytest.approx(fewer["loss"], abs=TOLERANCE)


def test_losses_in_float32_are_the_same_but_for_rounding(work: Path) -> None:
    one, *others = (read_rows(work / f"{count}/single" / runs.METRICS) for count in (1, 2, 4))
    weights = load_file(work / "4/single/model.safetensors")
    assert all(tensor.dtype is torch.float32 for tensor in weights.values())
    for rows in others:
        assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in one], 1e-4)


def test_what_is_wrong_is_said(work: Path) -> None:
    lines = (work / "2.log").read_text()
    assert "heedful: --out 2/tag holds a finished run" in lines
    assert "heedful: process 1: --out 2/tag holds a finished run" in lines


def test_a_folder_in_which_others_train_is_refused_by_all_processes(work: Path) -> None:
    with held_elsewhere(work / "elsewhere"):
        _, lines = start(work, 2, [training("tag", "elsewhere")])
    # Without a network torch has lines of its own to say.
    (said,) = [line for line in lines.splitlines() if line.startswith("heedful: ")]
    assert said.startswith("heedful: --out elsewhere: another process is training there;")

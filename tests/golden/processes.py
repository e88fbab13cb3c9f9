"""Measure how far the weights of training with several processes are from those with one.

    python -m tests.golden.processes [--only NAME] [--steps 20] [--given-rates]

Every training of ``cases.CURVES`` takes 20 steps without dropout in float64, in one process, in two
and in four, at the learning rates that users get. Sums are all that differs between them, by the
order of what is added. So the third column shows what that order alone does: one process again,
which takes the items of each batch in the reverse order. The last column leaves out weights that no
loss depends on, such as the biases of keys: a softmax does not see what is added to all scores.
Their gradients are rounding alone, about 1e-17, which AdamW divides by an epsilon of 1e-8, or of
1e-9 in translation. The name is that of the weight that differs most.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors.numpy import load_file
from tests.golden.cases import CURVES

START = Path(__file__).parent / "0.1.0"
RATES = ("--learning-rate", "--head-learning-rate")
COUNTS = (1, 2, 4)
UNSEEN = ("key.bias", "k_proj.bias", "qa_outputs.bias", "classifier.bias")
"""Added to all scores of a softmax alike; that of a classifier only where it scores choices."""

TRAIN = """
import json, os, sys, torch
torch.set_default_dtype(torch.float64)  # no option of the command line: what would be float32
torch.Tensor.float = torch.Tensor.double
torch.set_num_threads(1)
from heedful.cli import run
from heedful.training import ranks
part = ranks.part
def reversed_part(items):
    return ranks.Part(items[::-1].copy(), 1)
with ranks.together():
    for name, words in json.loads(sys.argv[1]).items():
        ranks.part = part
        if code := run([*words, "--out", os.path.join(str(ranks.size()), name)]):
            sys.exit(code)
        if ranks.size() == 1:
            ranks.part = reversed_part
            run([*words, "--out", os.path.join("reversed", name)])
"""


def main() -> None:
    """Train everything, compare the weights, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="trainings whose names have this in them")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--given-rates", action="store_true", help="the learning rates of the cases"
    )
    asked = parser.parse_args()
    options = ["--steps", str(asked.steps), "--dropout", "0", "--seed", "3", "--precision", "fp32"]
    trainings = {
        name: ["train", *(words if asked.given_rates else without_rates(words)), *options]
        for name, words in CURVES.items()
        if not asked.only or asked.only in name
    }
    if not trainings:
        parser.error(f"--only {asked.only}: the names are {', '.join(CURVES)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary, "work")
        shutil.copytree(START, work)
        for count in COUNTS:
            train(work, count, trainings)
        width = max(map(len, trainings))
        sides = [*map(str, COUNTS[1:]), "reversed"]
        print(f"{'':{width}}  " + "  ".join(f"{side:>8}" for side in [*sides, "seen"]))
        for name in trainings:
            ways = [furthest(work / "1" / name, work / side / name) for side in sides]
            numbers = "  ".join(f"{distance:8.1e}" for distance, _ in ways)
            unseen = UNSEEN[: None if name.startswith("choose") else -1]
            seen = max(furthest(work / "1" / name, work / side / name, unseen)[0] for side in sides)
            print(f"{name:{width}}  {numbers}  {seen:8.1e}  {max(ways)[1]}", flush=True)


def without_rates(words: Sequence[str]) -> list[str]:
    """Return a command's words without the learning rates that it gives."""
    kept: list[str] = []
    for word, before in zip(words, ("", *words), strict=False):
        if word not in RATES and before not in RATES:
            kept.append(word)
    return kept


def train(work: Path, count: int, trainings: Mapping[str, Sequence[str]]) -> None:
    """Train everything in several processes that train together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    environment = {**os.environ, **meeting, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-c", TRAIN, json.dumps(trainings)]
    with (work / f"{count}.log").open("w") as log:
        processes = [
            subprocess.Popen(command, cwd=work, env=environment | {"RANK": str(rank)}, stderr=log)
            for rank in range(count)
        ]
        codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit((work / f"{count}.log").read_text())


def furthest(first: Path, second: Path, without: Sequence[str] = ()) -> tuple[float, str]:
    """Return the largest difference between the weights of two runs, and the weight's name."""
    ours, others = (load_file(run / "model.safetensors") for run in (first, second))
    assert ours.keys() == others.keys()
    names = [name for name in ours if not name.endswith(tuple(without))]
    return max((float(abs(ours[name] - others[name]).max()), name) for name in names)


if __name__ == "__main__":
    main()

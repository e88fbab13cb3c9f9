"""Check whether two versions of the sources train identically, bit by bit.

    python -m tests.golden.curves OLD NEW [--only NAME] [--dropout 0] [--float64]

OLD and NEW are commits, or folders that hold ``src``. Each trains 30 steps of every task by the
command line, on one thread, in fp32, with dropout 0.1, from the golden runs, whose weights are
stored. The losses, the gradients' norms, the scores on --dev and the final weights are compared.
Names that end in ``fresh`` also draw weights, so they alone change where only that does.

A rearrangement of the same arithmetic leaves everything bit-identical. One that changes the order
of operations or of draws shows that it is nothing more with ``--dropout 0 --float64``, where all
must agree to 1e-10: that is far above rounding (1e-16) times the steps, and far below any mistake.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from tests.golden.cases import CURVES

ROOT = Path(__file__).parents[2]
START = Path(__file__).parent / "0.1.0"
STEPS = 30
COMPARED = ("loss", "gradient_norm", "learning_rate", "tokens", "dev")

TRAIN = """
import json, os, sys, torch
if sys.argv[2] == "float64":  # no option of the command line: what would be float32 is this
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
torch.set_num_threads(1)
from heedful.cli import run
for name, words in json.loads(sys.argv[1]).items():
    print("\\n==", name, file=sys.stderr, flush=True)
    run([*words, "--out", os.path.join("out", name)])
"""


def main() -> int:
    """Train with both sources, compare, and return the exit code: 0 if all are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", help="a commit, or a folder that holds src")
    parser.add_argument("new", help="the same")
    parser.add_argument("--only", help="trainings whose names have this in them")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--float64", action="store_true", help="compare to 1e-10, not to the bit")
    asked = parser.parse_args()
    options = ["--steps", str(STEPS), "--dropout", str(asked.dropout), "--seed", "3"]
    trainings = {
        name: ["train", *words, *options, "--precision", "fp32"]
        for name, words in CURVES.items()
        if not asked.only or asked.only in name
    }
    if not trainings:
        parser.error(f"--only {asked.only}: the names are {', '.join(CURVES)}")
    with tempfile.TemporaryDirectory() as temporary:
        sides = {side: Path(temporary, side) for side in ("old", "new")}
        processes = [
            start(sources(getattr(asked, side), folder), folder, trainings, asked.float64)
            for side, folder in sides.items()
        ]
        for process in processes:
            process.wait()
        width, same = max(map(len, trainings)), True
        for name in trainings:
            outcome = compare(
                *(read(folder / "work" / "out" / name) for folder in sides.values()),
                tolerance=1e-10 if asked.float64 else 0.0,
            )
            same &= outcome.startswith("same")
            print(f"{name:{width}}  {outcome}", flush=True)
        for side, folder in sides.items():
            for line in failures(folder / "log"):
                print(f"{side}: {line}")
    return 0 if same else 1


def sources(named: str, folder: Path) -> Path:
    """Return the folder of a side's sources: the named one, or that of a commit."""
    folder.mkdir()
    if Path(named, "src").is_dir():
        return Path(named, "src").resolve()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", named, "src"], check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], check=True, input=archive.stdout)
    return folder / "src"


def start(
    source: Path, folder: Path, trainings: Mapping[str, Sequence[str]], float64: bool
) -> subprocess.Popen[bytes]:
    """Start a process that does all trainings with the sources of one side."""
    shutil.copytree(START, folder / "work")
    environment = {**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1", "TERM": "dumb"}
    environment |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-c", TRAIN, json.dumps(trainings)),
                "float64" if float64 else "float32",
            ],
            cwd=folder / "work",
            env=environment,
            stdout=log,
            stderr=log,
        )


def failures(log: Path) -> list[str]:
    """Return the errors, with the names of the trainings that failed."""
    name, wrong = "", []
    for line in log.read_text("utf-8", errors="replace").splitlines():
        if line.startswith("== "):
            name = line.removeprefix("== ")
        elif line.startswith("heedful: ") or "Error" in line:
            wrong.append(f"{name}: {line}")
    return wrong


def read(run: Path) -> dict[str, Any] | None:
    """Return the rows and the final weights of a run; None if it has not finished."""
    if not (run / "manifest.json").is_file():
        return None
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    weights = {}
    for path in sorted(run.rglob("*.safetensors")):
        if "checkpoints" not in path.parts:
            weights |= {f"{path.name}/{name}": array for name, array in load_file(path).items()}
    return {"rows": rows, "weights": weights}


def compare(old: dict[str, Any] | None, new: dict[str, Any] | None, *, tolerance: float) -> str:
    """Describe how two runs differ; starts with "same" if they do not."""
    if old is None or new is None:
        return "DIFFERS: " + " and ".join(
            f"{side} has not finished" for side, run in (("old", old), ("new", new)) if run is None
        )
    if old["weights"].keys() != new["weights"].keys():
        odd = sorted(old["weights"].keys() ^ new["weights"].keys())
        return f"DIFFERS: {len(odd)} weights have other names, such as {odd[0]}"
    if [row["step"] for row in old["rows"]] != [row["step"] for row in new["rows"]]:
        return "DIFFERS: the steps are not the same"
    first, rows = None, 0.0
    for one, other in zip(old["rows"], new["rows"], strict=True):
        gap = max(distance(one.get(key), other.get(key)) for key in COMPARED)
        rows = max(rows, gap)
        if first is None and gap > tolerance:
            first = one["step"]
    weights = max(
        distance(array.astype(float).ravel().tolist(), new["weights"][name].ravel().tolist())
        for name, array in old["weights"].items()
    )
    largest = max(rows, weights)
    if largest <= tolerance:
        return f"same: to {largest:.0e}" if largest else "same: bit-identical"
    when = f"from step {first} on" if first is not None else "in the final weights alone"
    return f"DIFFERS {when}: rows by at most {rows:.1e}, weights by {weights:.1e}"


def distance(one: Any, other: Any) -> float:
    """Return the largest difference of two numbers, lists or dicts; missing values count."""
    if isinstance(one, dict) and isinstance(other, dict):
        return max((distance(one.get(key), other.get(key)) for key in one | other), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(distance, one, other), default=0.0)
    if isinstance(one, int | float) and isinstance(other, int | float):
        gap = abs(one - other)
        return math.inf if math.isnan(gap) else gap
    return 0.0 if one == other else math.inf


if __name__ == "__main__":
    sys.exit(main())

"""Evaluate training on little data (`python -m benchmarks.little_data`).

The script shuffles each training set, trains on its first items, and evaluates on held-out data. It
compares three epochs, the default of older versions, with today's default. It runs the commands
that users type: ``heedful train TASK``, then ``heedful evaluate``.
"""

import argparse
import gzip
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.digits import heedful


@dataclass(frozen=True, kw_only=True)
class Case:
    """A task and its data."""

    task: str
    train: str
    held_out: str
    """File in the data folder, like ``train``."""
    max_held_out: int
    """Maximum number of held-out items."""
    score: str
    sizes: Sequence[int]
    separator: str = "\n"
    """Separator between two items of a file."""
    suffix: str = ".csv"
    train_options: Sequence[str] = ()
    held_out_options: Sequence[str] | None = None
    """Options of the held-out data; None if they are those of the training data."""


CASES = (
    Case(
        task="classify",
        train="ag_news/train_pool.csv.gz",
        held_out="ag_news/test.csv.gz",
        max_held_out=1000,
        score="accuracy",
        sizes=(20, 60, 200, 600),
        train_options=("--no-header", "--label", "1", "--text", "2"),
        held_out_options=("--no-header", "--label", "1", "--text", "2,3"),
    ),
    Case(
        task="tag",
        train="conll2003/train.bio.txt.gz",
        held_out="conll2003/valid.bio.txt.gz",
        max_held_out=800,
        score="f1",
        sizes=(60, 300),
        separator="\n\n",
        suffix=".conll",
    ),
    Case(
        task="regress",
        train="stsb/stsb-en-train.csv.gz",
        held_out="stsb/stsb-en-dev.csv.gz",
        max_held_out=1500,
        score="pearson",
        sizes=(300,),
        train_options=("--no-header", "--text", "1", "--text-pair", "2", "--label", "3"),
    ),
)


def items(case: Case, name: str) -> list[str]:
    """Return the items of a file in random order, with a fixed seed."""
    text = gzip.decompress((FOLDER / name).read_bytes()).decode()
    all_items = [item for item in text.split(case.separator) if item.strip()]
    random.Random(0).shuffle(all_items)
    return [item for item in all_items if not item.startswith("-DOCSTART-")]


def write(case: Case, path: Path, selected: Sequence[str]) -> Path:
    """Write items to a file."""
    path.write_text(case.separator.join(selected) + "\n", encoding="utf-8")
    return path


def measure(case: Case, size: int, epochs: Sequence[str], seed: int) -> float:
    """Train on the first items, and return the score on the held-out data.

    Args:
        case: The task and its data.
        size: Number of training items.
        epochs: Command-line options for the number of epochs.
        seed: Seed of the training.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = write(case, folder / f"train{case.suffix}", items(case, case.train)[:size])
        held_out = items(case, case.held_out)[: case.max_held_out]
        data = write(case, folder / f"data{case.suffix}", held_out)
        out = str(folder / "run")
        training = ("--train", str(train), *case.train_options, *epochs, "--seed", str(seed))
        heedful("train", case.task, *training, "--out", out)
        options = case.held_out_options or case.train_options
        scores = json.loads(heedful("evaluate", out, "--data", str(data), *options))
    return float(scores[case.score])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    print("task      items  score     --epochs 3   default")
    for case in CASES:
        for size in case.sizes:
            columns = [
                ", ".join(f"{measure(case, size, epochs, seed):.3f}" for seed in options.seeds)
                for epochs in (("--epochs", "3"), ())
            ]
            print(
                f"{case.task:8}  {size:5}  {case.score:8}  {columns[0]:11}  {columns[1]}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""What a model learns from little data (`python -m benchmarks.little_data`).

The first so many items of each training set, once it is shuffled, train a run: three passes over
them, as many as older versions made, and the default. What users type is what is run: ``heedful
train TASK``, then ``heedful evaluate`` on items of the set that is meant for that.
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
    """Files in the folder of data."""
    most: int
    """Items that are scored."""
    score: str
    sizes: Sequence[int]
    between: str = "\n"
    """What stands between two items of a file."""
    suffix: str = ".csv"
    train_options: Sequence[str] = ()
    held_out_options: Sequence[str] | None = None
    """Where they are others."""


CASES = (
    Case(
        task="classify",
        train="ag_news/train_pool.csv.gz",
        held_out="ag_news/test.csv.gz",
        most=1000,
        score="accuracy",
        sizes=(20, 60, 200, 600),
        train_options=("--no-header", "--label", "1", "--text", "2"),
        held_out_options=("--no-header", "--label", "1", "--text", "2,3"),
    ),
    Case(
        task="tag",
        train="conll2003/train.bio.txt.gz",
        held_out="conll2003/valid.bio.txt.gz",
        most=800,
        score="f1",
        sizes=(60, 300),
        between="\n\n",
        suffix=".conll",
    ),
    Case(
        task="regress",
        train="stsb/stsb-en-train.csv.gz",
        held_out="stsb/stsb-en-dev.csv.gz",
        most=1500,
        score="pearson",
        sizes=(300,),
        train_options=("--no-header", "--text", "1", "--text-pair", "2", "--label", "3"),
    ),
)


def items(case: Case, name: str) -> list[str]:
    """Return the items of a file in a random order, the same each time."""
    text = gzip.decompress((FOLDER / name).read_bytes()).decode()
    all_items = [item for item in text.split(case.between) if item.strip()]
    random.Random(0).shuffle(all_items)
    return [item for item in all_items if not item.startswith("-DOCSTART-")]


def write(case: Case, path: Path, some: Sequence[str]) -> Path:
    """Write items to a file."""
    path.write_text(case.between.join(some) + "\n", encoding="utf-8")
    return path


def measure(case: Case, size: int, passes: Sequence[str], seed: int) -> float:
    """Return the score of a run on what was held out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = write(case, folder / f"train{case.suffix}", items(case, case.train)[:size])
        held_out = items(case, case.held_out)[: case.most]
        data = write(case, folder / f"data{case.suffix}", held_out)
        out = str(folder / "run")
        training = ("--train", str(train), *case.train_options, *passes, "--seed", str(seed))
        heedful("train", case.task, *training, "--out", out)
        options = case.held_out_options or case.train_options
        scores = json.loads(heedful("evaluate", out, "--data", str(data), *options))
    return float(scores[case.score])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    print("task      items  score     --epochs 3   by default")
    for case in CASES:
        for size in case.sizes:
            columns = [
                ", ".join(f"{measure(case, size, passes, seed):.3f}" for seed in options.seeds)
                for passes in (("--epochs", "3"), ())
            ]
            print(
                f"{case.task:8}  {size:5}  {case.score:8}  {columns[0]:11}  {columns[1]}",
                flush=True,
            )


if __name__ == "__main__":
    main()

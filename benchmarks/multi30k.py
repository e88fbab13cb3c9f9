"""``python -m benchmarks.multi30k [--seed N] [--runs FOLDER] [NAME ...]``: train and score.

Each translator is trained by the command that a user would type and scored on test_2016_flickr, at
beam 5. Prints a line of JSON for each: the seed, the time, the scores and their signatures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import FOLDER


@dataclass(frozen=True, kw_only=True, slots=True)
class Translator:
    """What is trained."""

    source: str
    target: str
    options: str


TRANSFORMER = (
    "--arch transformer --pre-norm --batch-size 64 --learning-rate 2e-3 --schedule linear "
    "--dropout 0.2 --epochs 12"
)
RNN = "--arch rnn --batch-size 64 --learning-rate 2e-3 --schedule linear --dropout 0.2 --epochs 5"
TRANSLATORS = {
    "transformer-de-en": Translator(source="de", target="en", options=TRANSFORMER),
    "transformer-en-de": Translator(source="en", target="de", options=TRANSFORMER),
    "rnn-de-en": Translator(source="de", target="en", options=RNN),
}


def measure(name: str, runs: Path, seed: int) -> dict[str, object]:
    """Train and score one of them; its run stays in ``runs``."""
    what, run = TRANSLATORS[name], runs / f"{name}-{seed}"

    def files(part: str) -> list[str]:
        return [str(FOLDER / f"multi30k/{part}.{side}.gz") for side in (what.source, what.target)]

    options = [*what.options.split(), "--seed", str(seed)]
    started = time.perf_counter()
    _heedful(
        *("train", "translate", "--train", *files("train"), "--dev", *files("val")),
        *("--out", str(run), *options),
    )
    seconds = time.perf_counter() - started
    scores = json.loads(
        _heedful("evaluate", str(run), "--data", *files("test_2016_flickr"), "--beam", "5")
    )
    return {
        "name": name,
        "command": f"heedful train translate {' '.join(options)}",
        "seed": seed,
        "seconds_of_training_with_dev_and_start": round(seconds),
        **scores,
    }


def _heedful(*arguments: str) -> str:
    """Run a command, whose progress is shown, and return what it prints."""
    run = subprocess.run(
        [sys.executable, "-m", "heedful", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout


def main() -> None:
    """Train those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(TRANSLATORS)}; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(TRANSLATORS)):
        parser.error(f"no translator {unknown[0]!r}; there are: {', '.join(TRANSLATORS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names or TRANSLATORS:
            print(json.dumps(measure(name, asked.runs or Path(folder), asked.seed)), flush=True)


if __name__ == "__main__":
    main()

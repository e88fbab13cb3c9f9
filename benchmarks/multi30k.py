"""``python -m benchmarks.multi30k [--seed N] [--runs FOLDER] [NAME ...]``: train translators.

The script trains each translator with the command that a user would type, and scores it on
test_2016_flickr with beam size 5. It prints a line of JSON for each: the seed, the time, the scores
and their signatures.
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
    """A translator's languages and training options."""

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
    """Train and score one translator; its run stays in ``runs``."""
    translator, run = TRANSLATORS[name], runs / f"{name}-{seed}"

    def files(part: str) -> list[str]:
        return [
            str(FOLDER / f"multi30k/{part}.{side}.gz")
            for side in (translator.source, translator.target)
        ]

    options = [*translator.options.split(), "--seed", str(seed)]
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
    """Run a command of heedful and return its output; its progress stays visible."""
    run = subprocess.run(
        [sys.executable, "-m", "heedful", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return run.stdout


def main() -> None:
    """Train the translators given on the command line, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"{', '.join(TRANSLATORS)}; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(TRANSLATORS)):
        parser.error(f"unknown translator {unknown[0]!r}; choose from {', '.join(TRANSLATORS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or TRANSLATORS:
            print(json.dumps(measure(name, options.runs or Path(folder), options.seed)), flush=True)


if __name__ == "__main__":
    main()

"""The trained runs that rows answer with: made where they are not there, and kept.

They are kept in the folder that ``HEEDFUL_BENCH_RUNS`` names, or in ``build/bench``; a run that is
put there under one of these names is taken as it is.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.race import ROOT

RUNS = "HEEDFUL_BENCH_RUNS"
_MULTI30K = ("multi30k/train.de.gz", "multi30k/train.en.gz")
_TRANSLATOR = ("--batch-size", "64", "--schedule", "linear", "--warmup", "400", "--dropout", "0.1")
RECIPES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "classify": (
        "classify",
        ("ag_news/train_pool.csv.gz",),
        ("--no-header", "--label", "1", "--text", "2", "--steps", "500", "--batch-size", "8"),
    ),
    "tag": (
        "tag",
        ("conll2003/train.bio.txt.gz",),
        ("--format", "conll", "--steps", "300", "--learning-rate", "1e-4"),
    ),
    "answer": (
        "answer",
        ("squad/squadshifts_new_wiki_v1.0.json.gz",),
        (
            *("--max-length", "384", "--steps", "200", "--batch-size", "16"),
            *("--learning-rate", "1e-4"),
        ),
    ),
    "fill": (
        "pretrain",
        ("gutenberg/emma.txt.gz",),
        (
            *("--objective", "mlm", "--model", "minilm", "--max-length", "128", "--steps", "150"),
            *("--learning-rate", "5e-4", "--batch-size", "32"),
        ),
    ),
    "translate-small": (
        "translate",
        _MULTI30K,
        ("--preset", "small", *_TRANSLATOR, "--learning-rate", "1.5e-3", "--epochs", "6"),
    ),
    "translate-base": (
        "translate",
        _MULTI30K,
        ("--preset", "base", *_TRANSLATOR, "--learning-rate", "5e-4", "--epochs", "3"),
    ),
}
"""What is trained: the task, the files of the data folder, and the options."""


def trained(name: str) -> Path:
    """Return the folder of a finished run, which is trained first where it is not there."""
    folder = Path(os.environ.get(RUNS, ROOT / "build/bench")).absolute() / name
    if not (folder / "model.safetensors").exists():  # which is written last
        task, files, options = RECIPES[name]
        data = [str(FOLDER / file) for file in files]
        command = ["train", task, "--train", *data, *options, "--out", str(folder)]
        print(f"training {folder} first, which is kept", file=sys.stderr, flush=True)
        # A run that was broken off is taken up again.
        resume = ["--resume"] if folder.exists() else []
        subprocess.run([sys.executable, "-m", "heedful", *command, *resume], check=True)
    return folder

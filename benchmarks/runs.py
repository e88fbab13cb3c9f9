"""The trained models that rows predict with; missing ones are trained first.

They are stored in the folder ``HEEDFUL_BENCH_RUNS``, by default ``build/bench``. If a run with the
right name exists there, it is reused as it is.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.runner import ROOT

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
"""For each run: the task, the training files in the data folder, and the options."""


def trained_run(name: str) -> Path:
    """Return the folder of a finished run; train it first if it does not exist."""
    folder = Path(os.environ.get(RUNS, ROOT / "build/bench")).absolute() / name
    if not (folder / "model.safetensors").exists():  # the last file that a run writes
        task, files, options = RECIPES[name]
        data = [str(FOLDER / file) for file in files]
        command = ["train", task, "--train", *data, *options, "--out", str(folder)]
        print(f"training {folder} first; it will be reused", file=sys.stderr, flush=True)
        # If a run was interrupted, continue it.
        resume = ["--resume"] if folder.exists() else []
        subprocess.run([sys.executable, "-m", "heedful", *command, *resume], check=True)
    return folder

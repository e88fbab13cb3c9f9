"""Train a ViT from scratch on handwritten digits, on a CPU (`python -m benchmarks.digits`).

The script writes the 1,797 digits of scikit-learn, 8 x 8 pixels each, as PNG files of 32 x 32
pixels, in one folder per label. For each seed it holds out a different fifth. It runs the commands
that users type: ``heedful train classify`` on the other images, then ``heedful evaluate`` on the
held-out fifth. To choose settings, use ``--tune``: it holds out a fifth of the training images.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIDE = 32
SETTINGS = (
    *("--format", "images", "--preset", "mini", "--image-size", "32", "--patch-size", "8"),
    "--grey",
)


def write(folder: Path, seed: int, *, tune: bool) -> None:
    """Write the folders ``train`` and ``test``.

    With ``tune``, ``test`` is a fifth of the training images instead of the held-out images.
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    held_out, rest = np.split(order, [len(order) // 5])
    test, train = np.split(rest, [len(rest) // 5]) if tune else (held_out, rest)
    for name, rows in (("train", train), ("test", test)):
        for row in rows:
            path = folder / name / str(digits.target[row]) / f"{row:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = (digits.images[row] * 255 / 16).round().astype(np.uint8)
            Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)


def measure(seed: int, *, tune: bool) -> tuple[float, float]:
    """Train with one seed; return the accuracy on the held-out images and the training seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, seed, tune=tune)
        out = str(folder / "run")
        started = time.monotonic()
        train = ("--train", str(folder / "train"), "--seed", str(seed), "--out", out)
        heedful("train", "classify", *train, *SETTINGS)
        seconds = time.monotonic() - started
        scores = json.loads(heedful("evaluate", out, "--data", str(folder / "test")))
    return scores["accuracy"], seconds


def heedful(*arguments: str) -> str:
    """Run a command of heedful and return its output; if it fails, exit with its error message."""
    command = [sys.executable, "-m", "heedful", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--tune", action="store_true", help="hold out a fifth of the training images instead"
    )
    options = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", f"all {os.cpu_count()}")
    print(f"threads: {threads}\nseed  accuracy  seconds")
    for seed in options.seeds:
        accuracy, seconds = measure(seed, tune=options.tune)
        print(f"{seed:4}  {accuracy:8.4f}  {seconds:7.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Plot BLEU against training time, for heedful and JoeyNMT.

    python -m benchmarks.translation_curve [--out runs/curve] [--minutes 8] [--points 6]

Both train on Multi30k, German to English, with the preset ``small``, 64 pairs per step, and the
same learning rates, dropout and label smoothing. JoeyNMT reads the pieces of heedful's vocabulary
and uses fp32, its default without a GPU. ``--points`` times during training, the 1,014 development
pairs are translated greedily and scored by sacreBLEU; the training time does not include this. The
script prints a line of JSON for each library, and writes the plot to ``curve.png``.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import heedful
from benchmarks.data import FOLDER
from benchmarks.joeynmt import read_pieces, run_joeynmt, write_pieces
from benchmarks.step_time import PROBE_STEPS, seconds_per_step
from heedful.reading.parallel import read_pairs
from heedful.settings import ColumnSettings

RATE, WARMUP = 1e-3, 300


class Point(NamedTuple):
    """BLEU after a number of steps and seconds of training."""

    step: int
    seconds: float
    bleu: float


def files(part: str) -> list[Path]:
    """Return the two files of a part of Multi30k."""
    return [FOLDER / f"multi30k/{part}.{language}.gz" for language in ("de", "en")]


def train_heedful(out: Path, minutes: float, number_of_points: int) -> list[Point]:
    """Train with heedful, as users do."""
    steps_per_point = (
        round(60 * minutes / seconds_per_step(_train(out / "probe", PROBE_STEPS, PROBE_STEPS)))
        // number_of_points
    )
    run = _train(out / "heedful", number_of_points * steps_per_point, steps_per_point)
    points, seconds = [], 0.0
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "dev" in row:
            points.append(Point(row["step"], seconds, row["dev"]["bleu"]))
        elif row.get("tokens"):
            seconds += row["tokens"] / row["tokens_per_second"]
    return points


def _train(out: Path, steps: int, steps_per_point: int) -> Path:
    heedful.train(
        "translate",
        train=files("train"),
        dev=files("val"),
        out=out,
        preset="small",
        learning_rate=RATE,
        schedule="inverse-sqrt",
        warmup=WARMUP,
        dropout=0.1,
        label_smoothing=0.1,
        steps=steps,
        evaluate_every=steps_per_point,
        overwrite=True,
        say=lambda line: None,
    )
    return out


def train_joeynmt(out: Path, minutes: float, number_of_points: int) -> list[Point]:
    """Train with JoeyNMT."""
    from sacrebleu.metrics.bleu import BLEU

    pairs = {
        part: list(read_pairs(files(name), ColumnSettings()))
        for part, name in (("train", "train"), ("dev", "val"))
    }
    folder = out / "joeynmt"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = write_pieces(pairs, ("de", "en"), folder)
    job = {
        "languages": ("de", "en"),
        "model": {"width": 256, "heads": 4, "blocks": 3, "dropout": 0.1, "layer_norm": "post"},
        "rate": RATE,
        "warmup": WARMUP,
        "beam": 1,
    }
    probe = run_joeynmt(folder, {**job, "steps": PROBE_STEPS, "every": 10**9})
    steps_per_point = round(60 * minutes / probe["seconds_of_a_step"]) // number_of_points
    facts = run_joeynmt(
        folder, {**job, "steps": number_of_points * steps_per_point, "every": steps_per_point}
    )
    references = [pair.text_pair or "" for pair in pairs["dev"]]
    points = []
    for step, seconds in facts["points"]:
        texts = read_pieces(folder / f"model/{step}.hyps", tokenizer)
        points.append(Point(step, seconds, BLEU().corpus_score(texts, [references]).score))
    return points


def draw(curves: dict[str, Sequence[Point]], picture: Path) -> None:
    """Plot BLEU against time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in curves.items():
        axes.plot([p.seconds for p in points], [p.bleu for p in points], marker=".", label=name)
    axes.set(xlabel="seconds of training", ylabel="BLEU, greedy", ylim=(0, None), xlim=(0, None))
    axes.legend()
    figure.savefig(picture, dpi=150)


def main() -> None:
    """Train with both libraries, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/curve"))
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--points", type=int, default=6)
    options = parser.parse_args()
    curves: dict[str, Sequence[Point]] = {}
    for name, train_library in (("heedful", train_heedful), ("JoeyNMT", train_joeynmt)):
        curves[name] = train_library(options.out, options.minutes, options.points)
        print(json.dumps({"name": name, "points": curves[name]}), flush=True)
    draw(curves, options.out / "curve.png")


if __name__ == "__main__":
    main()

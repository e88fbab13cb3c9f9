"""How well a translator does after so many seconds of training: heedful's and JoeyNMT's.

    python -m benchmarks.translation_curve [--out runs/curve] [--minutes 8] [--points 6]

Both learn Multi30k, German to English, with the preset ``small``, 64 pairs a step, the same rates,
dropout and label smoothing; JoeyNMT reads the pieces of heedful's vocabulary and computes in fp32,
as it does where there is no GPU. At so many points of the time the 1,014 pairs for development are
translated greedily, which the clock does not count; sacreBLEU scores all. Prints a line of JSON for
each program, and draws ``curve.png``.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import heedful
from benchmarks.data import FOLDER
from benchmarks.pace import PROBE, pace
from benchmarks.pieces import read_pieces, run_joeynmt, write_pieces
from heedful.reading.parallel import read_pairs
from heedful.settings import ColumnSettings

RATE, WARMUP = 1e-3, 300


class Point(NamedTuple):
    """What was reached."""

    step: int
    seconds: float
    bleu: float


def files(part: str) -> list[Path]:
    """Return the two files of a part of Multi30k."""
    return [FOLDER / f"multi30k/{part}.{language}.gz" for language in ("de", "en")]


def ours(out: Path, minutes: float, count: int) -> list[Point]:
    """Train heedful's, as a user does."""
    every = round(60 * minutes / pace(_train(out / "probe", PROBE, PROBE))) // count
    run = _train(out / "heedful", count * every, every)
    points, seconds = [], 0.0
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "dev" in row:
            points.append(Point(row["step"], seconds, row["dev"]["bleu"]))
        elif row.get("tokens"):
            seconds += row["tokens"] / row["tokens_per_second"]
    return points


def _train(out: Path, steps: int, every: int) -> Path:
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
        evaluate_every=every,
        overwrite=True,
        say=lambda line: None,
    )
    return out


def joeynmt(out: Path, minutes: float, count: int) -> list[Point]:
    """Train JoeyNMT's."""
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
    probe = run_joeynmt(folder, {**job, "steps": PROBE, "every": 10**9})
    every = round(60 * minutes / probe["seconds_of_a_step"]) // count
    facts = run_joeynmt(folder, {**job, "steps": count * every, "every": every})
    references = [pair.text_pair or "" for pair in pairs["dev"]]
    points = []
    for step, seconds in facts["points"]:
        texts = read_pieces(folder / f"model/{step}.hyps", tokenizer)
        points.append(Point(step, seconds, BLEU().corpus_score(texts, [references]).score))
    return points


def draw(curves: dict[str, Sequence[Point]], picture: Path) -> None:
    """Draw BLEU against time."""
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
    """Train both, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/curve"))
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--points", type=int, default=6)
    options = parser.parse_args()
    curves: dict[str, Sequence[Point]] = {}
    for name, learn in (("heedful", ours), ("JoeyNMT", joeynmt)):
        curves[name] = learn(options.out, options.minutes, options.points)
        print(json.dumps({"name": name, "points": curves[name]}), flush=True)
    draw(curves, options.out / "curve.png")


if __name__ == "__main__":
    main()

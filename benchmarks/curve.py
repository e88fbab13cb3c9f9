"""``python -m benchmarks.curve RUN HELD_OUT FILE.png``: plot the curves of a pre-training run.

The plot also has the baselines: the accuracy of always predicting the commonest token, and for
pairs the commoner label.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any


def baselines(run: Path, held_out: Path) -> dict[str, float]:
    """Return the accuracy of constant predictions on a held-out text."""
    from heedful import load
    from heedful.task import Start
    from heedful.tasks.corpus import open_corpus
    from heedful.tasks.pretrain import Pretrain

    predictor = load(run)
    task, tokenizer = predictor.task, predictor.tokenizer
    assert isinstance(task, Pretrain)
    start = Start(tokenizer=tokenizer, model=predictor.model, max_length=predictor.max_length)
    with tempfile.TemporaryDirectory() as folder:
        corpus = open_corpus(
            [held_out], task.documents, task.sentences, tokenizer, Path(folder), workers=1
        )
        tokens = Counter(token for document in corpus for token in document.ids.tolist())
        sequences = task.sequences(corpus, start, seed=0, epoch=0)
        pair_labels = Counter(example.labels for example in sequences)
    words, *pairs = (
        task.metrics()
    )  # the accuracy of masked words and, if the objective has pairs, of pairs
    constant = {words: tokens.most_common(1)[0][1] / tokens.total()}
    return constant | {
        name: pair_labels.most_common(1)[0][1] / pair_labels.total() for name in pairs
    }


def draw(run: Path, held_out: Path, picture: Path) -> None:
    """Plot the training loss, and the accuracies on the development data."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    constant = baselines(run, held_out)
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()
    ]
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    dev = [(row["step"], row["dev"]) for row in rows if "dev" in row]
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    width = 20  # number of steps to average, for a smoother line
    groups = [losses[start : start + width] for start in range(0, len(losses), width)]
    steps = [group[-1][0] for group in groups]
    left.plot(steps, [sum(loss for _, loss in group) / len(group) for group in groups])
    left.set(xlabel="step", ylabel="training loss", ylim=(0, None))
    for key, label in (
        ("masked_accuracy", "masked words"),
        ("nsp_accuracy", "next sentence"),
        ("sop_accuracy", "sentence order"),
    ):
        points = [(step, scores[key]) for step, scores in dev if key in scores]
        if points:
            (line,) = right.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
            baseline = constant[key]
            right.axhline(
                baseline,
                linestyle=":",
                color=line.get_color(),
                label=f"constant prediction: {baseline:.3f}",
            )
            print(f"{key}: {points[-1][1]:.4f}, constant prediction {baseline:.4f}")
    right.set(xlabel="step", ylabel="accuracy on the held-out book", ylim=(0, 1))
    right.legend(frameon=False)
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))

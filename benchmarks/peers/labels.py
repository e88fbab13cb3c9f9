"""Classify texts: with the pipeline of transformers, and with engines, texts sorted by length."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.arm_process import Trial
from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute
from benchmarks.row import Arm

LONGEST = 512


def run_laps(trial: Trial, labels_of: Callable[[list[str]], list[str]]) -> list[str]:
    """Run the laps with a function from texts to labels, and return all labels."""
    parts: list[list[str]] = trial.read("texts.json")
    labels_of(parts[0][:64])
    return [label for texts in trial.laps(parts) for label in labels_of(texts)]


def run_laps_one_by_one(trial: Trial, labels_of: Callable[[list[str]], list[str]]) -> list[str]:
    """Run the laps with one text at a time."""
    return run_laps(trial, lambda texts: [labels_of([text])[0] for text in texts])


def pipeline_labels(folder: Path) -> Callable[[list[str]], list[str]]:
    """Return a function from texts to labels that uses the reference's pipeline."""
    from transformers import BertForSequenceClassification, BertTokenizerFast, pipeline

    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, batch_size=BATCH)

    def labels_of(texts: list[str]) -> list[str]:
        rows = classify(texts, truncation=True, max_length=LONGEST)
        return [row["label"] for row in rows]

    return labels_of


def engine_labels(name: str, folder: Path, threads: int) -> Callable[[list[str]], list[str]]:
    """Return a function from texts to labels that uses an engine."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = {int(number): label for number, label in config["id2label"].items()}
    engine, tokenizer = load(name, folder, "sequence", threads, longest=LONGEST)

    def labels_of(texts: list[str]) -> list[str]:
        outputs = compute(engine, tokenizer.encode_batch_fast(texts))
        return [names[int(logits.argmax())] for (logits,) in outputs]

    return labels_of


Laps = Callable[[Trial, Callable[[list[str]], list[str]]], list[str]]
"""A function that runs the laps: `run_laps` or `run_laps_one_by_one`."""


def pipeline(run_all: Laps, trial: Trial) -> list[str]:
    """Classify with the reference's pipeline."""
    import torch

    torch.set_num_threads(trial.threads)
    return run_all(trial, pipeline_labels(Path(trial.read("model.json")["folder"])))


def engine_arm(run_all: Laps, name: str, trial: Trial) -> list[str]:
    """Classify with an engine."""
    folder = Path(trial.read("model.json")["folder"])
    return run_all(trial, engine_labels(name, folder, trial.threads))


def arms(run_all: Laps) -> dict[str, Arm]:
    """Return the peers' arms."""
    return {
        "transformers pipeline": Arm(run=partial(pipeline, run_all), format="fp32"),
        **{
            name: Arm(run=partial(engine_arm, run_all, name), format=number_format)
            for name, number_format in ENGINES.items()
        },
    }

"""Texts to labels: the pipeline of transformers, and engines with texts sorted by length."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute, load_tokenizer
from benchmarks.row import Arm
from benchmarks.trial import Trial

LONGEST = 512


def run_laps(trial: Trial, labels_of: Callable[[list[str]], list[str]]) -> list[str]:
    """Take the laps with a function from texts to labels, and return all of these."""
    parts: list[list[str]] = trial.read("texts.json")
    labels_of(parts[0][:64])
    return [label for texts in trial.laps(parts) for label in labels_of(texts)]


def pipeline_labels(folder: Path) -> Callable[[list[str]], list[str]]:
    """Make the reference's pipeline a function from texts to labels."""
    from transformers import BertForSequenceClassification, BertTokenizerFast, pipeline

    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    answer = pipeline("text-classification", model=model, tokenizer=tokenizer, batch_size=BATCH)

    def labels_of(texts: list[str]) -> list[str]:
        rows = answer(texts, truncation=True, max_length=LONGEST)
        return [row["label"] for row in rows]

    return labels_of


def engine_labels(name: str, folder: Path, threads: int) -> Callable[[list[str]], list[str]]:
    """Make an engine a function from texts to labels."""
    import json

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = {int(number): label for number, label in config["id2label"].items()}
    tokenizer = load_tokenizer(folder, LONGEST)
    engine = load(name, folder, "sequence", threads)

    def labels_of(texts: list[str]) -> list[str]:
        outputs = compute(engine, tokenizer.encode_batch_fast(texts))
        return [names[int(logits.argmax())] for (logits,) in outputs]

    return labels_of


def pipeline(trial: Trial) -> list[str]:
    """Answer with the reference's pipeline."""
    import torch

    torch.set_num_threads(trial.threads)
    return run_laps(trial, pipeline_labels(Path(trial.read("model.json")["folder"])))


def engine_arm(name: str) -> Callable[[Trial], list[str]]:
    """Answer with an engine."""

    def run(trial: Trial) -> list[str]:
        folder = Path(trial.read("model.json")["folder"])
        return run_laps(trial, engine_labels(name, folder, trial.threads))

    return run


PEERS = {
    "transformers pipeline": Arm(run=pipeline, format="fp32"),
    **{
        name: Arm(run=engine_arm(name), format=number_format)
        for name, number_format in ENGINES.items()
    },
}

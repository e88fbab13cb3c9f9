"""Fine-tune MiniLM on AG News with heedful and with training loops for transformers.

All arms train on the same texts, with the same batch size, the same schedule and the same learning
rate of the encoder. The same code scores them in fp32 on the same texts of the test set.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores
from benchmarks.rows.classify import agreement
from benchmarks.rows.encode import lengths_of, operations

if TYPE_CHECKING:
    from heedful.settings import PrecisionName

TEXTS, MAX_LENGTH, TEST_TEXTS, BACKWARD = 4000, 256, 1000, 2
RATES = {8: 7e-5, 32: 1.4e-4}
"""Peak learning rate for each batch size: it grows with the square root of the batch size."""


def heedful(precision: "PrecisionName", batch_size: int, trial: Trial) -> str:
    """Train with heedful, as users do."""
    from benchmarks.training_laps import steps_as_laps
    from heedful import train

    facts = trial.read("facts.json")
    out = trial.folder / f"run-{precision}"
    with steps_as_laps(trial, facts["steps"]) as steps:
        train(
            "classify",
            train=trial.folder / "train.jsonl",
            out=out,
            max_length=MAX_LENGTH,
            long_text="head",
            batch_size=batch_size,
            learning_rate=RATES[batch_size],
            steps=steps,
            precision=precision,
            checkpoint_every=10**6,
        )
    return str(out)


def transformers(trial: Trial, batch_size: int, *, tuned: bool) -> str:
    """Train with a loop: as in tutorials, or in bf16 with batches of texts of similar length."""
    import torch
    from transformers import BertForSequenceClassification, BertTokenizerFast

    from benchmarks.peers.training import train

    facts = trial.read("facts.json")
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(facts["folder"])
    labels = facts["labels"]
    model = BertForSequenceClassification.from_pretrained(
        facts["folder"],
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    lines = (trial.folder / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    encoded = tokenizer([row["text"] for row in rows], truncation=True, max_length=MAX_LENGTH)
    ids = encoded["input_ids"]
    order = torch.randperm(len(ids)).tolist()
    if tuned:
        order = sorted(order, key=lambda row: len(ids[row]))
    batches = [order[start : start + batch_size] for start in range(0, len(ids), batch_size)]
    if tuned:
        batches = [batches[at] for at in torch.randperm(len(batches)).tolist()]

    def batch_of(chosen: list[int]) -> tuple[dict[str, torch.Tensor], int]:
        batch = tokenizer.pad({"input_ids": [ids[row] for row in chosen]}, return_tensors="pt")
        target = torch.tensor([labels.index(rows[row]["label"]) for row in chosen])
        return {**batch, "labels": target}, sum(len(ids[row]) for row in chosen)

    size = facts["steps"]
    laps = [batches[lap * size : (lap + 1) * size] for lap in range(trial.number_of_laps)]
    steps = size * trial.number_of_laps
    train(trial, model, laps, batch_of, rate=RATES[batch_size], steps=steps, bf16=tuned)
    out = trial.folder / ("tuned" if tuned else "plain")
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return str(out)


def prepare(batch_size: int, folder: Path, laps: int, share: float) -> Plan:
    """Write random texts of the training set."""
    import numpy as np

    from benchmarks.data import LABELS, ag_news
    from heedful.sources import resolve

    model = Path(resolve("minilm"))
    steps = max(1, round(TEXTS * share / laps / batch_size))
    pool = ag_news("train_pool")
    number = laps * steps * batch_size
    records = [pool[at] for at in np.random.default_rng(0).permutation(len(pool))[:number]]
    with (folder / "train.jsonl").open("w", encoding="utf-8") as stream:
        for record in records:
            row = {"text": record.text, "label": (record.labels or ("",))[0]}
            stream.write(json.dumps(row) + "\n")
    facts = {"folder": str(model), "steps": steps, "labels": LABELS}
    (folder / "facts.json").write_text(json.dumps(facts))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    lengths = lengths_of([record.text for record in records], model, MAX_LENGTH)
    return Plan(operations=(1 + BACKWARD) * operations(config, lengths))


def score(folder: Path, outputs: Mapping[str, str]) -> Scores:
    """Return the accuracy of each trained model, with the same code for all arms."""
    return {name: {"accuracy": _accuracy(Path(model))} for name, model in outputs.items()}


def _accuracy(folder: Path) -> float:
    """Return the accuracy of a saved model of any arm."""
    from benchmarks.data import LABELS, ag_news
    from heedful import BertForSequenceClassification, BertTokenizer, Predictor
    from heedful.checkpoints.runs import RunRecord
    from heedful.settings import PredictSettings

    record = RunRecord(
        task="classify",
        goal={"labels": LABELS, "multi_label": False},
        max_length=MAX_LENGTH,
        settings={},
        data=[],
        versions={},
    )
    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained("minilm")
    predictor = Predictor(model, tokenizer, record, PredictSettings(precision="fp32"))
    records = ag_news("test")[::7][:TEST_TEXTS]
    labels = [answer.label for answer in predictor.predict(item.text for item in records)]
    return agreement(labels, [(item.labels or ("",))[0] for item in records])


def arms(batch_size: int) -> dict[str, Arm]:
    """Return the arms for a batch size."""

    def of(run: Callable[..., str], **options: bool) -> Callable[[Trial], str]:
        return lambda trial: run(trial, batch_size, **options)

    return {
        "heedful bf16": Arm(run=partial(heedful, "bf16", batch_size), format="bf16", peer=False),
        "heedful fp32": Arm(run=partial(heedful, "fp32", batch_size), format="fp32", peer=False),
        "transformers": Arm(run=of(transformers, tuned=False), format="fp32"),
        "transformers bf16, sorted": Arm(run=of(transformers, tuned=True), format="bf16"),
    }


ROWS = {
    f"finetune-{size}": Row(
        title=f"fine-tuning MiniLM on AG News with batch size {size}",
        arms=arms(size),
        prepare=partial(prepare, size),
        score=score,
        unit="tokens/s",
    )
    for size in RATES
}

"""Fine-tuning MiniLM on AG News: heedful, and loops over the reference library.

Each arm learns from 4,000 texts of the pool, the reference in 500 steps of 8, heedful in the same
steps and in 125 of 32, its own batch size. All have the same schedule and, with batches of 8, the
same learning rate for the encoder; a batch four times as large has twice the rate, its square
root. All are scored on the same 2,000 texts of the official test set by the same code in fp32.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import LABELS, ag_news
from benchmarks.race import Lap, race, run_laps, total

TEXTS, BATCH, LAPS, RATE, MAX_LENGTH = 4000, 8, 5, 7e-5, 256
STEPS = TEXTS // BATCH
TEST_TEXTS = 2000


def _score(folder: Path) -> float:
    """Score a saved model, whoever trained it, with one and the same code."""
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
    records = ag_news("test")[::3][:TEST_TEXTS]
    answers = predictor.predict(item.text for item in records)
    right = sum(a.label == (r.labels or ("",))[0] for a, r in zip(answers, records, strict=True))
    return right / len(records)


def heedful_arm(batch_size: int) -> Iterator[Lap]:
    """Heedful's own loop, as the command line runs it, but for the clock around it."""
    import torch

    from heedful.batches import Draw, plan_epoch
    from heedful.models.loading import load_model
    from heedful.settings import HEAD_RATE
    from heedful.task import Fit
    from heedful.tasks.classify import Classify
    from heedful.tokens import BertTokenizer
    from heedful.training.allocator import keep_big_buffers
    from heedful.training.device import choose_device, choose_precision
    from heedful.training.loop import Position, Work, train
    from heedful.training.optimize import adamw
    from heedful.training.schedule import schedule

    keep_big_buffers()
    steps = TEXTS // batch_size
    rate = RATE * (batch_size / BATCH) ** 0.5
    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained("minilm")
    task = Classify(labels=tuple(LABELS), multi_label=False)
    model = load_model(
        "minilm",
        head="sequence",
        id2label=dict(enumerate(LABELS)),
        problem_type="single_label_classification",
    )
    fit = Fit(max_length=MAX_LENGTH, rule="head")
    encoded = task.encode(ag_news("train_pool"), tokenizer, fit, labelled=True)
    examples = [piece for text in encoded for piece in text.pieces]
    lengths = [len(example.ids) for example in examples]
    device = choose_device("cpu")
    work = Work(
        model=model,
        optimizer=adamw(model, learning_rate=rate, head_learning_rate=HEAD_RATE * rate),
        plan=lambda epoch: plan_epoch(
            lengths, batch_size=batch_size, batch_tokens=8192, seed=0, epoch=epoch
        ),
        fetch=lambda rows, epoch: task.batch(
            [examples[row] for row in rows], tokenizer, Draw(seed=0, epoch=epoch, rows=rows)
        ),
        loss=task.loss,
        count=task.count,
        factor=schedule("linear", total_steps=steps, warmup=0.1),
    )
    precision = choose_precision("auto", device)
    run = train(work, Position(), total_steps=steps, precision=precision)
    yield {"ready": str(precision.dtype)}
    for _ in range(LAPS):
        started, tokens = time.perf_counter(), 0
        for _ in range(steps // LAPS):
            tokens += next(run).tokens
        yield {"seconds": time.perf_counter() - started, "tokens": tokens}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(Path(folder) / "model")
        yield {"accuracy": _score(Path(folder) / "model")}


def _reference_arm(*, bf16: bool, by_length: bool) -> Iterator[Lap]:
    """Loop over the reference library as tutorials write it."""
    import torch
    from transformers import (
        BertForSequenceClassification,
        BertTokenizerFast,
        get_linear_schedule_with_warmup,
    )

    from heedful.sources import resolve

    torch.manual_seed(0)
    folder = resolve("minilm")
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=len(LABELS))
    records = ag_news("train_pool")
    order = torch.randperm(len(records)).tolist()[: STEPS * BATCH]
    encoded = tokenizer([records[i].text for i in order], truncation=True, max_length=MAX_LENGTH)[
        "input_ids"
    ]
    labels = [LABELS.index((records[i].labels or ("",))[0]) for i in order]
    rows = (
        sorted(range(len(order)), key=lambda i: len(encoded[i])) if by_length else range(len(order))
    )
    batches = [list(rows[i : i + BATCH]) for i in range(0, len(order), BATCH)]
    if by_length:
        batches = [batches[i] for i in torch.randperm(len(batches)).tolist()]
    undecayed = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if not n.endswith(undecayed)], "weight_decay": 0.01},
            {"params": [p for n, p in named if n.endswith(undecayed)], "weight_decay": 0.0},
        ],
        lr=RATE,
    )
    schedule = get_linear_schedule_with_warmup(optimizer, STEPS // 10, STEPS)
    model.train()
    yield {"ready": "bf16" if bf16 else "fp32"}
    todo = iter(batches)
    for _ in range(LAPS):
        started, tokens = time.perf_counter(), 0
        for _ in range(STEPS // LAPS):
            chosen = next(todo)
            batch: Any = tokenizer.pad(
                {"input_ids": [encoded[i] for i in chosen]}, return_tensors="pt"
            )
            target = torch.tensor([labels[i] for i in chosen])
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                loss = model(**batch, labels=target).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            tokens += sum(len(encoded[i]) for i in chosen)
        yield {"seconds": time.perf_counter() - started, "tokens": tokens}
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        yield {"accuracy": _score(Path(saved))}


ARMS = {
    "heedful-8": lambda: heedful_arm(8),
    "heedful-32": lambda: heedful_arm(32),
    "plain": lambda: _reference_arm(bf16=False, by_length=False),
    "bf16-sorted": lambda: _reference_arm(bf16=True, by_length=True),
}
PEERS = {
    "plain": "transformers 4.57.6 loop, fp32, batches of 8 as they come",
    "bf16-sorted": "transformers 4.57.6 loop, bf16, length-sorted batches of 8",
}


def run() -> list[dict[str, object]]:
    """Race the arms and return a row for each of ours against each peer."""
    laps = race("benchmarks.finetune", list(ARMS))
    rates = {name: total(runs, "tokens") / total(runs, "seconds") for name, runs in laps.items()}
    accuracy = {name: runs[-1]["accuracy"] for name, runs in laps.items()}
    return [
        {
            "name": f"fine-tuning MiniLM on AG News in batches of {size}, against the {text}",
            "ours": rates[f"heedful-{size}"],
            "peer": rates[peer],
            "ratio": rates[f"heedful-{size}"] / rates[peer],
            "unit": "tokens/s",
            "quality": f"accuracy {accuracy[f'heedful-{size}']:.3f} / {accuracy[peer]:.3f}",
            "memory": f"{laps[f'heedful-{size}'][-2]['peak']:,} / {laps[peer][-2]['peak']:,}",
        }
        for size in (8, 32)
        for peer, text in PEERS.items()
    ]


if __name__ == "__main__":
    run_laps(ARMS)

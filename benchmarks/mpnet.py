"""Compare the quality of fine-tuning with heedful and with a training loop for transformers.

    python -m benchmarks.mpnet [TASK ...] [--seeds 3] [--arms heedful transformers]
                               [--threads N] [--precision bf16] [--out runs/mpnet]

Both fine-tune all-mpnet-base-v2 (`heedful setup mpnet`) on STS-B for one epoch, and on SST-2 for
1,000 steps with batch size 32, with the same seeds, batch sizes, steps and schedule. The script
prints a row for each task: the mean over the seeds and its standard error. The same code scores
both, in fp32. Existing runs are reused, so an interrupted benchmark continues where it stopped.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import torch

import heedful
from benchmarks.data import FOLDER
from heedful.reading import read_records
from heedful.settings import ColumnSettings
from heedful.sources import resolve

LENGTH, RATE, HEAD_RATE = 128, 2e-5, 4e-4
CHECKPOINT_EVERY = 50
"""Steps between two checkpoints of the loop for transformers."""
MICRO_BATCHES = 4
"""The loop for transformers splits each batch into this many micro-batches of similar length. The
gradient is the same, with half of the padding."""
ARMS = ("heedful", "transformers")
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task with its data and its number of steps."""

    verb: Literal["classify", "regress"]
    train: Path
    test: Path
    columns: dict[str, Any] = field(default_factory=dict)
    batch_size: int
    steps: int
    score: str


TASKS = {
    "sts-b": Task(
        verb="regress",
        train=FOLDER / "stsb/stsb-en-train.csv.gz",
        test=FOLDER / "stsb/stsb-en-test.csv.gz",
        columns={"header": False, "text": "1", "text_pair": "2", "label": "3"},
        batch_size=16,
        steps=360,  # an epoch of 5,749 pairs
        score="spearman",
    ),
    "sst-2": Task(
        verb="classify",
        train=FOLDER / "glue/SST-2/train.tsv.gz",
        test=FOLDER / "glue/SST-2/dev.tsv.gz",
        columns={"text": "sentence"},
        batch_size=32,
        steps=1000,
        score="accuracy",
    ),
}


def train_with_heedful(task: Task, seed: int, precision: Precision, out: Path) -> None:
    """Train with heedful; continue from the last checkpoint if there is one."""
    started = any((out / "checkpoints").glob("step-*"))
    heedful.train(
        task.verb,
        train=task.train,
        model="mpnet",
        out=out,
        seed=seed,
        max_length=LENGTH,
        long_text="head",
        batch_size=task.batch_size,
        steps=task.steps,
        learning_rate=RATE,
        head_learning_rate=HEAD_RATE,
        precision=precision,
        resume=started,
        overwrite=not started,
        **task.columns,
    )


def train_with_transformers(task: Task, seed: int, precision: Precision, out: Path) -> None:
    """Train with a typical loop for transformers; continue from its last checkpoint."""
    from transformers import (
        MPNetForSequenceClassification,
        MPNetTokenizerFast,
        get_linear_schedule_with_warmup,
    )

    from benchmarks.peers.training import optimizer_of

    torch.manual_seed(seed)
    folder = resolve("mpnet")
    tokenizer = MPNetTokenizerFast.from_pretrained(folder)
    records = list(read_records([task.train], ColumnSettings(**task.columns)))
    truths = [(record.labels or ("",))[0] for record in records]
    names = sorted(set(truths)) if task.verb == "classify" else ["score"]
    model = MPNetForSequenceClassification.from_pretrained(
        folder,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        problem_type="regression" if task.verb == "regress" else "single_label_classification",
    )
    optimizer = optimizer_of(model, RATE, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, task.steps // 10, task.steps)
    batches: list[list[int]] = []
    size = task.batch_size
    while len(batches) < task.steps:  # as in a DataLoader, the last batch of an epoch is smaller
        order: list[int] = torch.randperm(len(records)).tolist()
        batches += [order[start : start + size] for start in range(0, len(order), size)]
    model.train()
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    checkpoint, done = out.with_suffix(".pt"), 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        done = state["step"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
    for step, chosen in enumerate(batches[done : task.steps], done + 1):
        by_length = sorted(chosen, key=lambda row: len(records[row].text))
        micro_batch_size = ceil(len(chosen) / MICRO_BATCHES)
        losses = []
        for start in range(0, len(chosen), micro_batch_size):
            micro_batch = by_length[start : start + micro_batch_size]
            pairs = [records[row].text_pair for row in micro_batch]
            batch = tokenizer(
                [records[row].text for row in micro_batch],
                None if None in pairs else pairs,
                padding=True,
                truncation=True,
                max_length=LENGTH,
                return_tensors="pt",
            )
            labels = [truths[row] for row in micro_batch]
            target = (
                torch.tensor([float(label) for label in labels])
                if task.verb == "regress"
                else torch.tensor([names.index(label) for label in labels])
            )
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
                loss = model(**batch, labels=target).loss * (len(micro_batch) / len(chosen))
            loss.backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % CHECKPOINT_EVERY == 0:
            print(f"step {step}: loss {sum(losses):.4f}", file=sys.stderr, flush=True)
            state = {name: part.state_dict() for name, part in parts.items()}
            partial = checkpoint.with_suffix(".partial")
            torch.save({**state, "step": step, "random": torch.get_rng_state()}, partial)
            partial.replace(checkpoint)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    checkpoint.unlink(missing_ok=True)


def train_and_score(
    task: Task, name: str, arm: str, seed: int, options: argparse.Namespace
) -> float:
    """Train and score a model with one seed; an existing run is reused."""
    out: Path = options.out / f"{name}-{arm}-{seed}"
    scores_file = out.with_suffix(".json")
    if not scores_file.exists():
        if not (out / "model.safetensors").exists():
            train = train_with_heedful if arm == "heedful" else train_with_transformers
            train(task, seed, options.precision, out)
        scores = heedful.evaluate(
            out, task.test, precision="fp32", say=lambda line: None, **task.columns
        )
        scores_file.write_text(
            json.dumps({task.score: scores[task.score]}) + "\n", encoding="utf-8"
        )
    score = float(json.loads(scores_file.read_text(encoding="utf-8"))[task.score])
    print(f"{out.name}: {task.score} {score:.4f}", file=sys.stderr, flush=True)
    return score


def cell(scores: Sequence[float]) -> str:
    """Return the mean of the scores with its standard error."""
    error = f" ± {stdev(scores) / sqrt(len(scores)):.4f}" if len(scores) > 1 else ""
    return f"{mean(scores):.4f}{error}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help=f"{', '.join(TASKS)}; default: all"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/mpnet"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--threads", type=int, help="default: torch's default")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    options = parser.parse_args()
    if unknown := sorted(set(options.tasks) - set(TASKS)):
        parser.error(f"unknown task {unknown[0]!r}; choose from {', '.join(TASKS)}")
    if options.threads:
        torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"| task | score | {' | '.join(options.arms)} |\n|{'---|' * (2 + len(options.arms))}")
    for name in options.tasks or TASKS:
        task = TASKS[name]
        cells = [
            cell([train_and_score(task, name, arm, seed, options) for seed in range(options.seeds)])
            for arm in options.arms
        ]
        print(f"| {name} | {task.score} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

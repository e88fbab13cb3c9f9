"""Evaluate a small Chinese BERT, with half an hour of pre-training and without.

    python -m benchmarks.chinese [TASK ...] [--out runs/chinese] [--minutes 30 | --steps N]

The script pre-trains a `mini` BERT with masked words on four novels and on the texts of the tasks'
training data, without their labels. For each task it compares three models: the pre-trained BERT,
the same model with random weights, and a logistic regression on character n-grams. It prints a row
for each task. Whole words are segmented by jieba: `pip install 'heedful[chinese]'`.
"""

import argparse
import csv
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.sparse import hstack
from seqeval.metrics import f1_score
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import accuracy_score

import heedful
from benchmarks.data import FOLDER
from benchmarks.random_weights import write_random_model
from benchmarks.step_time import PROBE_STEPS, seconds_per_step
from heedful.commands.vocabulary import learn as train_vocabulary
from heedful.settings import VocabularySettings

DATA = FOLDER / "zh"
LENGTH, BATCH = 256, 8
REPETITIONS = 3
"""How often the pre-training data repeat the tasks' texts; the novels occur once."""
PRETRAINING: dict[str, Any] = {
    "objective": "mlm",
    "masking": "word",
    "documents": "gap",
    "preset": "mini",
    "max_length": LENGTH,
    "batch_size": BATCH,
    "dropout": 0.0,
    "position_type": "relative_key",
    "learning_rate": 1e-3,
}
FINE_TUNING: dict[str, Any] = {
    "max_length": LENGTH,
    "batch_tokens": 1024,
    "learning_rate": 3e-4,
    "head_learning_rate": 1e-3,
    "dropout": 0.1,
}
EXCLUDED = ("《招商银行：投资永隆银行", "WEDotA")
"""Sentences of CLUENER's training data that cannot be tagged: one has a company inside the title of
a book, the other has two entities in one piece."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task with its records and its training options."""

    verb: str
    train: Sequence[Any]
    test: Sequence[Any]
    score: str
    epochs: int
    batch_size: int = 16
    grouped: bool = False
    """Whether to batch sentences of similar length together."""


def lines_of(name: str) -> list[str]:
    """Return the lines of a compressed file."""
    return gzip.decompress((DATA / name).read_bytes()).decode("utf-8").splitlines()


def reviews(part: str) -> list[dict[str, str]]:
    """Read ChnSentiCorp."""
    rows = (line.split("\t", 1) for line in lines_of(f"chnsenticorp/{part}.tsv.gz")[1:])
    return [{"text": text, "label": label} for label, text in rows]


def titles(part: str) -> list[dict[str, str]]:
    """Read THUCNews."""
    rows = (line.rsplit("\t", 1) for line in lines_of(f"thucnews/{part}.txt.gz"))
    return [{"text": text, "label": label} for text, label in rows]


def questions(part: str) -> list[dict[str, str]]:
    """Read AFQMC."""
    rows = csv.DictReader(lines_of(f"afqmc/{part}.csv.gz"))
    return [
        {"text": row["sentence1"], "text_pair": row["sentence2"], "label": row["label"]}
        for row in rows
    ]


def entities(part: str) -> list[dict[str, Any]]:
    """Read CLUENER, without two sentences that cannot be tagged."""
    decoder, text = json.JSONDecoder(), "".join(lines_of(f"cluener/{part}.json.gz"))
    records, at = [], 0
    while at < len(text):
        sentence, at = decoder.raw_decode(text, at)
        spans = sorted(
            (first, last + 1, label)
            for label, texts in sentence["label"].items()
            for places in texts.values()
            for first, last in places
        )
        if not any(part in sentence["text"] for part in EXCLUDED):
            marked = [{"start": start, "end": end, "label": label} for start, end, label in spans]
            records.append({"text": sentence["text"], "entities": marked})
    return records


def tasks() -> dict[str, Task]:
    """Read all tasks."""
    return {
        "ChnSentiCorp": Task(
            verb="classify",
            train=reviews("train"),
            test=reviews("test"),
            score="accuracy",
            epochs=4,
        ),
        "THUCNews titles": Task(
            verb="classify",
            train=titles("dev"),
            test=titles("test"),
            score="accuracy",
            epochs=2,
            batch_size=32,
        ),
        "AFQMC": Task(
            verb="classify",
            train=questions("train"),
            test=questions("dev"),
            score="accuracy",
            epochs=1,
            batch_size=32,
        ),
        "CLUENER": Task(
            verb="tag",
            train=entities("train"),
            test=entities("dev"),
            score="f1",
            epochs=3,
            grouped=True,
        ),
    }


def chapters() -> Iterator[str]:
    """Yield the chapters of the novels."""
    for path in sorted((DATA / "novels").glob("*.gz")):
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
        for chapter in re.split(r"(?m)^(?=第[^\s]{1,9}回)", text):
            yield "\n".join(line.strip() for line in chapter.splitlines() if line.strip())


def texts(selected: Iterable[Task]) -> Iterator[str]:
    """Yield the documents of the pre-training data."""
    yield from chapters()
    for task in chain.from_iterable(repeat([*selected], REPETITIONS)):
        for record in task.train:
            yield record["text"]
            if "text_pair" in record:
                yield record["text_pair"]


def pretrain(out: Path, selected: Iterable[Task], steps: int | None, minutes: float) -> Path:
    """Write the texts, train the vocabulary and pre-train; an existing run is reused."""
    run, words, file = out / "pretrained", out / "words", out / "texts.txt"
    if (run / "model.safetensors").exists():
        return run
    out.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n\n".join(texts(selected)), encoding="utf-8")
    train_vocabulary([file], VocabularySettings(size=8000, alphabet=6000), words, overwrite=True)
    common = {
        **PRETRAINING,
        "train": file,
        "vocabulary": str(words),
        "corpus": out / "corpus",
        "overwrite": True,
    }
    if steps is None:
        heedful.train("pretrain", out=out / "probe", steps=PROBE_STEPS, **common)
        steps = round(60 * minutes / seconds_per_step(out / "probe"))
    heedful.train("pretrain", out=run, steps=steps, **common)
    print(f"pre-trained for {steps} steps of {LENGTH * BATCH} tokens", flush=True)
    return run


def fine_tune(task: Task, model: Path, out: Path, seed: int) -> float:
    """Fine-tune a model on a task, and return the score on its test data."""
    columns: dict[str, Any] = {"text_pair": "text_pair"} if "text_pair" in task.train[0] else {}
    heedful.train(
        task.verb,
        train=task.train,
        model=str(model),
        out=out,
        seed=seed,
        epochs=task.epochs,
        batch_size=task.batch_size,
        group_by_length=task.grouped,
        overwrite=True,
        say=lambda line: None,
        **columns,
        **FINE_TUNING,
    )
    scores = heedful.evaluate(out, task.test, say=lambda line: None, **columns)
    return float(scores[task.score])


def regression(task: Task) -> float:
    """Return the score of a logistic regression on character n-grams."""
    if task.verb == "tag":
        return tag_with_regression(task)
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2, sublinear_tf=True)
    vectors.fit(text for record in task.train for text in texts_of(record))
    model = LogisticRegression(C=10, max_iter=1000)
    model.fit(features(vectors, task.train), [record["label"] for record in task.train])
    predictions = model.predict(features(vectors, task.test))
    return float(accuracy_score([record["label"] for record in task.test], predictions))


def texts_of(record: dict[str, str]) -> list[str]:
    """Return the text of a record, or both texts of a pair."""
    return [record[name] for name in ("text", "text_pair") if name in record]


def features(vectors: Any, records: Sequence[dict[str, str]]) -> Any:
    """Return n-gram weights; for a pair, of the shared n-grams and of those in only one text."""
    first = vectors.transform([record["text"] for record in records])
    if "text_pair" not in records[0]:
        return first
    second = vectors.transform([record["text_pair"] for record in records])
    return hstack([first.minimum(second), abs(first - second)]).tocsr()


def tag_with_regression(task: Task) -> float:
    """Tag each character by the n-grams around it, and return the F1 of the entities."""
    hashed = FeatureHasher(2**20, input_type="string", alternate_sign=False)
    model = SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=5, tol=None, random_state=0)
    rows, tags = [], []
    for record in task.train:
        rows += [*ngrams_around(record["text"])]
        tags += tags_of(record)
    model.fit(hashed.transform(rows), tags)
    truth = [tags_of(record) for record in task.test]
    predictions = [
        model.predict(hashed.transform([*ngrams_around(record["text"])])).tolist()
        for record in task.test
    ]
    return float(f1_score(truth, predictions))


def ngrams_around(text: str) -> Iterator[list[str]]:
    """Yield for each character the n-grams (n = 1 to 3) around it, with their positions."""
    padded = f"  {text}  "
    for position in range(2, len(text) + 2):
        yield [
            f"{start} {padded[position + start : position + start + size]}"
            for size in (1, 2, 3)
            for start in range(-2, 4 - size)
        ]


def tags_of(record: dict[str, Any]) -> list[str]:
    """Return the BIO tag of each character."""
    tags = ["O"] * len(record["text"])
    for entity in record["entities"]:
        span = range(entity["start"], entity["end"])
        for position in span:
            tags[position] = f"{'B' if position == span.start else 'I'}-{entity['label']}"
    return tags


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="tasks to evaluate; default: all")
    parser.add_argument("--out", type=Path, default=Path("runs/chinese"))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--steps", type=int, help="pre-training steps, instead of --minutes")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    all_tasks = tasks()
    if unknown := sorted(set(options.tasks) - set(all_tasks)):
        parser.error(f"unknown task {unknown[0]!r}; choose from {', '.join(all_tasks)}")
    run = pretrain(options.out, all_tasks.values(), options.steps, options.minutes)
    print("| task | score | n-grams | random weights | pre-trained |\n|---|---|---|---|---|")
    for name in options.tasks or all_tasks:
        task = all_tasks[name]
        scores: dict[str, list[float]] = {"random": [], "pretrained": []}
        for seed in range(options.seeds):
            fresh = write_random_model(run, options.out / f"random-{seed}", seed, "masked_lm")
            for start, model in (("random", fresh), ("pretrained", run)):
                out = options.out / f"{name.split()[0].lower()}-{start}-{seed}"
                scores[start].append(fine_tune(task, model, out, seed))
                print(f"{out.name}: {scores[start][-1]:.4f}", file=sys.stderr, flush=True)
        cells = [f"{mean(s):.4f} ({min(s):.4f}–{max(s):.4f})" for s in scores.values()]
        print(
            f"| {name} | {task.score} | {regression(task):.4f} | {' | '.join(cells)} |", flush=True
        )


if __name__ == "__main__":
    main()

"""From text to label over the AG News test set: heedful's predictor and the reference's pipeline.

Both answer with the same weights, fine-tuned briefly first, so that the accuracy means something.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import FOLDER, ag_news
from benchmarks.race import Lap, race, run_laps, total

TEXTS, LAPS = 7600, 10


def _run_folder() -> Path:
    return Path(os.environ["HEEDFUL_BENCHMARK_RUN"])


def heedful_arm() -> Iterator[Lap]:
    """Answer with heedful's predictor."""
    from heedful import load
    from heedful.training.allocator import keep_big_buffers

    keep_big_buffers()
    predictor = load(_run_folder())
    texts = [record.text for record in ag_news("test")]
    list(predictor.predict(texts[:64]))
    yield {"ready": str(predictor.precision.dtype)}
    size = TEXTS // LAPS
    for start in range(0, TEXTS, size):
        started = time.perf_counter()
        labels = [answer.label for answer in predictor.predict(texts[start : start + size])]
        yield {"seconds": time.perf_counter() - started, "labels": labels}


def pipeline_arm() -> Iterator[Lap]:
    """Answer with the reference's pipeline."""
    from transformers import BertForSequenceClassification, BertTokenizerFast, pipeline

    model = BertForSequenceClassification.from_pretrained(_run_folder())
    tokenizer = BertTokenizerFast.from_pretrained(_run_folder())
    answer = pipeline("text-classification", model=model, tokenizer=tokenizer, batch_size=32)
    texts = [record.text for record in ag_news("test")]
    answer(texts[:64])
    yield {"ready": "fp32"}
    size = TEXTS // LAPS
    for start in range(0, TEXTS, size):
        started = time.perf_counter()
        labels = [row["label"] for row in answer(texts[start : start + size], truncation=True)]
        yield {"seconds": time.perf_counter() - started, "labels": labels}


ARMS = {"heedful": heedful_arm, "pipeline": pipeline_arm}


def run() -> list[dict[str, object]]:
    """Train a model, race the arms on it, and return the row."""
    import heedful

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        heedful.train(
            "classify",
            train=FOLDER / "ag_news/train_pool.csv.gz",
            text="2",
            label="1",
            header=False,
            steps=500,
            batch_size=8,
            out=out,
        )
        os.environ["HEEDFUL_BENCHMARK_RUN"] = str(out)
        laps = race("benchmarks.predict", list(ARMS))
    truth = [(record.labels or ("",))[0] for record in ag_news("test")]
    rates, right, answers = {}, {}, {}
    for name, runs in laps.items():
        answers[name] = [label for lap in runs for label in lap["labels"]]
        rates[name] = TEXTS / total(runs, "seconds")
        right[name] = sum(a == b for a, b in zip(answers[name], truth, strict=True)) / TEXTS
    same = sum(a == b for a, b in zip(answers["heedful"], answers["pipeline"], strict=True))
    return [
        {
            "name": "text to label over the AG News test set, against the transformers 4.57.6 "
            "pipeline, batch_size=32",
            "ours": rates["heedful"],
            "peer": rates["pipeline"],
            "ratio": rates["heedful"] / rates["pipeline"],
            "unit": "texts/s",
            "quality": f"accuracy {right['heedful']:.4f} / {right['pipeline']:.4f}, "
            f"same answer {same / TEXTS:.4f}",
            "memory": f"{laps['heedful'][-1]['peak']:,} / {laps['pipeline'][-1]['peak']:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)

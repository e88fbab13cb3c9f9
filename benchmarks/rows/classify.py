"""Classify news with a fine-tuned MiniLM, in batches or one by one; tokenization included."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import labels as peers
from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.encode import write_work

if TYPE_CHECKING:
    from heedful.predictor import Predictor

TEXTS, SHORT_TEXTS, SHORT = 7600, 1000, 60
"""Number of texts and of short texts in all laps, and maximum length of a short text in characters.
"""


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Classify with heedful."""
    predictor = load(trial.read("model.json")["folder"])
    return peers.run_laps(
        trial, lambda texts: [answer.label for answer in predictor.predict(texts)]
    )


def heedful_one_by_one(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Classify with heedful, one text at a time."""
    predictor = load(trial.read("model.json")["folder"])
    return peers.run_laps(trial, lambda texts: [predictor(text).label for text in texts])


def prepare_short(folder: Path, laps: int, share: float) -> Plan:
    """Divide the beginnings of some texts among the laps."""
    plan = prepare(folder, laps, share * SHORT_TEXTS / TEXTS)
    path = folder / "texts.json"
    parts = json.loads(path.read_text(encoding="utf-8"))
    parts = [[text[:SHORT].rsplit(" ", 1)[0] for text in part] for part in parts]
    path.write_text(json.dumps(parts), encoding="utf-8")
    return replace(plan, amounts=[float(len(part)) for part in parts], operations=None)


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Divide the test set of AG News among the laps; each arm sees each text only once."""
    from benchmarks.data import ag_news
    from benchmarks.runs import trained_run

    model = trained_run("classify")
    records = ag_news("test", round(TEXTS * share))
    size = len(records) // laps
    parts = [[r.text for r in records[lap * size : (lap + 1) * size]] for lap in range(laps)]
    truth = [(record.labels or ("",))[0] for record in records[: laps * size]]
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return write_work(folder, model, parts, 512)


def score(folder: Path, outputs: Mapping[str, list[str]]) -> Scores:
    """Return the accuracy, and the share of labels that equal the reference's in fp32."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    reference = outputs.get("transformers pipeline")
    scores = {}
    for name, labels in outputs.items():
        scores[name] = {"accuracy": agreement(labels, truth)}
        if reference is not None:
            scores[name]["same label"] = agreement(labels, reference)
    return scores


def agreement(labels: list[str], others: list[str]) -> float:
    """Return the share of labels that are the same in both lists."""
    return sum(a == b for a, b in zip(labels, others, strict=True)) / len(labels)


ROWS = {
    "classify": Row(
        title="classifying AG News with a fine-tuned MiniLM, including tokenization",
        arms={**ours.arms(heedful), **peers.arms(peers.run_laps)},
        prepare=prepare,
        score=score,
        unit="tokens/s",
    ),
    "short": Row(
        title="classifying short texts one by one, after a warm-up",
        arms={**ours.arms(heedful_one_by_one), **peers.arms(peers.run_laps_one_by_one)},
        prepare=prepare_short,
        score=score,
        unit="texts/s",
    ),
}

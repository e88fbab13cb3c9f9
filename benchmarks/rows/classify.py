"""News to their topic, many at once or one by one: a fine-tuned MiniLM, tokenizing included."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.peers import labels as peers
from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.encode import write_work
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from heedful.predictor import Predictor

TEXTS, SHORT_TEXTS, SHORT = 7600, 1000, 60
"""Texts of all laps, and the most characters of a short one."""


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Answer with heedful."""
    predictor = load(trial.read("model.json")["folder"])
    return peers.run_laps(
        trial, lambda texts: [answer.label for answer in predictor.predict(texts)]
    )


def heedful_one_by_one(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Answer with heedful, a text at a time."""
    predictor = load(trial.read("model.json")["folder"])
    return peers.run_laps(trial, lambda texts: [predictor(text).label for text in texts])


def prepare_short(folder: Path, laps: int, share: float) -> Plan:
    """Share the beginnings of some texts among the laps."""
    plan = prepare(folder, laps, share * SHORT_TEXTS / TEXTS)
    path = folder / "texts.json"
    parts = json.loads(path.read_text(encoding="utf-8"))
    parts = [[text[:SHORT].rsplit(" ", 1)[0] for text in part] for part in parts]
    path.write_text(json.dumps(parts), encoding="utf-8")
    return replace(plan, amounts=[float(len(part)) for part in parts], operations=None)


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Share the test set of AG News among the laps; every text is new to all arms."""
    from benchmarks.data import ag_news
    from benchmarks.runs import trained

    model = trained("classify")
    records = ag_news("test", round(TEXTS * share))
    size = len(records) // laps
    parts = [[r.text for r in records[lap * size : (lap + 1) * size]] for lap in range(laps)]
    truth = [(record.labels or ("",))[0] for record in records[: laps * size]]
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return write_work(folder, model, parts, 512)


def score(folder: Path, answers: Mapping[str, list[str]]) -> Scores:
    """Return the accuracy, and how often the label is the one of the reference in fp32."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    reference = answers.get("transformers pipeline")
    scores = {}
    for name, labels in answers.items():
        scores[name] = {"accuracy": agreement(labels, truth)}
        if reference is not None:
            scores[name]["same label"] = agreement(labels, reference)
    return scores


def agreement(labels: list[str], others: list[str]) -> float:
    """Return the share of equal ones."""
    return sum(a == b for a, b in zip(labels, others, strict=True)) / len(labels)


ROWS = {
    "classify": Row(
        title="AG News to labels with a fine-tuned MiniLM, tokenizing included",
        arms={**ours.arms(heedful), **peers.arms(peers.run_laps)},
        prepare=prepare,
        score=score,
        unit="tokens/s",
    ),
    "short": Row(
        title="short texts to labels, one by one in a process that is warm",
        arms={**ours.arms(heedful_one_by_one), **peers.arms(peers.run_laps_one_by_one)},
        prepare=prepare_short,
        score=score,
        unit="texts/s",
    ),
}

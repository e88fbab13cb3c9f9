"""Question answering on XQuAD with a fine-tuned MiniLM, in windows of 384 tokens."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import answers as peers
from benchmarks.row import Plan, Row, Scores

if TYPE_CHECKING:
    from heedful.predictor import Predictor


def records_of(laps: int, share: float) -> list[list[Any]]:
    """Divide the questions among the laps, so that each lap has questions from the whole set."""
    from benchmarks.data import FOLDER
    from heedful.settings import ColumnSettings
    from heedful.tasks.answer import Answer

    file = FOLDER / "squad/xquad.en.json.gz"
    records = list(Answer.read([file], ColumnSettings(), labelled=True))
    size = max(16, round(len(records) * share) // laps)
    return [records[lap :: len(records) // size][:size] for lap in range(laps)]


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Answer with heedful."""
    model = trial.read("model.json")
    predictor = load(model["folder"])
    parts = records_of(trial.number_of_laps, model["share"])
    list(predictor.answers(parts[0][:16]))
    return [
        answer.answer or ""
        for records in trial.laps(parts)
        for answer in list(predictor.answers(records))
    ]


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Write the questions and their contexts for the peers."""
    from benchmarks.runs import trained_run

    facts = {"folder": str(trained_run("answer")), "share": share}
    (folder / "model.json").write_text(json.dumps(facts))
    parts = records_of(laps, share)
    questions = [[(record.question, record.context) for record in part] for part in parts]
    (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    return Plan(amounts=[float(len(part)) for part in parts])


def score(folder: Path, outputs: Mapping[str, list[str]]) -> Scores:
    """Return F1 and exact match, with the same code for all arms."""
    from heedful.metrics import AnswerScores

    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    laps = len(json.loads((folder / "questions.json").read_text(encoding="utf-8")))
    records = [record for part in records_of(laps, facts["share"]) for record in part]
    scores = {}
    for name, texts in outputs.items():
        counter = AnswerScores(no_answer=False)
        for text, record in zip(texts, records, strict=True):
            right = [answer.text for answer in record.answers]
            counter.update(text, right, answered=True, margin=0.0)
        total = counter.compute()
        scores[name] = {"F1": total["f1"], "exact match": total["exact_match"]}
    return scores


ROWS = {
    "answer": Row(
        title="question answering on XQuAD with a fine-tuned MiniLM",
        arms={**ours.arms(heedful), **peers.PEERS},
        prepare=prepare,
        score=score,
        unit="questions/s",
    )
}

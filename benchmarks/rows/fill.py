"""Predict masked words of running text, with a MiniLM whose head was trained on a book."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import masked_words as peers
from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.classify import agreement
from benchmarks.rows.encode import write_work

if TYPE_CHECKING:
    from heedful.predictor import Predictor

TEXTS = 400


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> list[str]:
    """Predict with heedful."""
    predictor = load(trial.read("model.json")["folder"])
    return peers.run_laps(
        trial,
        lambda texts: [answer.blanks[0].candidates[0].token for answer in predictor.predict(texts)],
    )


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Mask a word in the middle of each paragraph of Wikitext-2."""
    import gzip

    from benchmarks.data import FOLDER
    from benchmarks.runs import trained_run

    model = trained_run("fill")
    with gzip.open(FOLDER / "wikitext2/wiki.test.raw.gz", "rt", encoding="utf-8") as stream:
        lines = [line.split()[:80] for line in stream if len(line.split()) > 20]
    size = max(16, round(TEXTS * share))
    parts, truth = [], []
    for lap in range(laps):
        texts = []
        for words in lines[lap * size : (lap + 1) * size]:
            middle = next(
                (at for at in range(len(words) // 2, len(words)) if words[at].isalpha()), 1
            )
            truth.append(words[middle].lower())
            texts.append(" ".join([*words[:middle], "[MASK]", *words[middle + 1 :]]))
        parts.append(texts)
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return write_work(folder, model, parts, 512)


def score(folder: Path, outputs: Mapping[str, list[str]]) -> Scores:
    """Return the accuracy, and the share of words that equal the reference's in fp32."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    reference = outputs.get("transformers pipeline")
    scores = {}
    for name, words in outputs.items():
        scores[name] = {"accuracy": agreement(words, truth)}
        if reference is not None:
            scores[name]["same word"] = agreement(words, reference)
    return scores


ROWS = {
    "fill": Row(
        title="predicting masked words of Wikitext-2 with MiniLM, including tokenization",
        arms={**ours.arms(heedful), **peers.PEERS},
        prepare=prepare,
        score=score,
        unit="tokens/s",
    )
}

"""Entity recognition on CoNLL-2003 with a fine-tuned MiniLM."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import ours
from benchmarks.arm_process import Trial
from benchmarks.peers import tags as peers
from benchmarks.row import Plan, Row, Scores
from benchmarks.rows.encode import lengths_of, operations

if TYPE_CHECKING:
    from heedful.predictor import Predictor
    from heedful.reading.tagging import TaggedText

Entities = list[list[tuple[int, int, str]]]
"""For each sentence, the start, end (in characters) and label of its entities."""


def records_of(laps: int, share: float) -> "list[list[TaggedText]]":
    """Divide the test set among the laps."""
    from benchmarks.data import FOLDER
    from heedful.settings import ColumnSettings
    from heedful.tasks.tag import Tag

    columns = ColumnSettings(format="conll")
    records = list(Tag.read([FOLDER / "conll2003/test.bio.txt.gz"], columns, labelled=True))
    size = round(len(records) * share) // laps
    return [records[lap * size : (lap + 1) * size] for lap in range(laps)]


def heedful(trial: Trial, load: "Callable[..., Predictor]") -> Entities:
    """Find entities with heedful."""
    model = trial.read("model.json")
    predictor = load(model["folder"])
    parts = records_of(trial.number_of_laps, model["share"])
    list(predictor.answers(parts[0][:64]))
    return [
        [(entity.start, entity.end, entity.label) for entity in answer.entities]
        for records in trial.laps(parts)
        for answer in list(predictor.answers(records))
    ]


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Write the words of the sentences for the peers."""
    from benchmarks.runs import trained_run

    model, parts = trained_run("tag"), records_of(laps, share)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    facts = {"folder": str(model), "share": share, "names": config["id2label"]}
    (folder / "model.json").write_text(json.dumps(facts))
    words = [[[r.text[start:end] for start, end in r.words or ()] for r in part] for part in parts]
    (folder / "words.json").write_text(json.dumps(words), encoding="utf-8")
    lengths = [lengths_of([record.text for record in part], model, 512) for part in parts]
    return Plan(
        amounts=[float(sum(part)) for part in lengths],
        operations=operations(config, [length for part in lengths for length in part]),
    )


def score(folder: Path, outputs: Mapping[str, Any]) -> Scores:
    """Return the F1 of entities, with the same code for all arms."""
    from seqeval.metrics.sequence_labeling import get_entities

    from heedful.metrics import EntityScores

    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    laps = len(json.loads((folder / "words.json").read_text(encoding="utf-8")))
    records = [record for part in records_of(laps, facts["share"]) for record in part]
    scores = {}
    for name, found in outputs.items():
        counter = EntityScores()
        for record, entities in zip(records, found, strict=True):
            if entities and isinstance(entities[0], str):  # tags of words
                words = record.words or ()
                entities = [
                    (words[start][0], words[end][1], kind)
                    for kind, start, end in get_entities(entities)
                ]
            counter.update(record.entities or (), [tuple(entity) for entity in entities])
        scores[name] = {"F1": float(counter.compute()["f1"])}
    return scores


ROWS = {
    "tag": Row(
        title="entity recognition on CoNLL-2003 with a fine-tuned MiniLM, including tokenization",
        arms={**ours.arms(heedful), **peers.PEERS},
        prepare=prepare,
        score=score,
        unit="tokens/s",
    )
}

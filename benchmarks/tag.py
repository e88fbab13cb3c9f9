"""From sentences to entities over the CoNLL-2003 test set, against a loop over the reference.

Both use the weights of one run that heedful trains first. The reference's loop is what its own
example script does: words to pieces, batches of 32 as they come, fp32, the likeliest tag of each
word's first piece. Entities are scored by the same code for both.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

LAPS, STEPS, BATCH = 2, 300, 32
TEST = FOLDER / "conll2003/test.bio.txt.gz"
RUN = "HEEDFUL_BENCHMARK_TAG_RUN"


def _score(found: list[list[tuple[int, int, str]]]) -> float:
    """Return the F1 of entities given as word numbers and type."""
    from heedful.metrics import EntityScores
    from heedful.reading.tagging import TaggedText

    scores = EntityScores()
    for record, entities in zip(_records(), found, strict=True):
        assert isinstance(record, TaggedText)
        scores.update(record.entities or (), entities)
    return float(scores.compute()["f1"])


def _records() -> list[object]:
    from heedful.settings import ColumnSettings
    from heedful.tasks.tag import Tag

    return list(Tag.read([TEST], ColumnSettings(format="conll"), labelled=True))


def heedful_arm() -> Iterator[Lap]:
    """Find entities with heedful."""
    from heedful.predictor import Predictor
    from heedful.training.allocator import keep_big_buffers

    keep_big_buffers()
    predictor = Predictor.load(os.environ[RUN])
    records = _records()
    list(predictor.answers(records[:64]))
    yield {"ready": str(predictor.precision.dtype)}
    size = -(-len(records) // LAPS)
    found: list[list[tuple[int, int, str]]] = []
    for start in range(0, len(records), size):
        started = time.perf_counter()
        answers = list(predictor.answers(records[start : start + size]))
        seconds = time.perf_counter() - started
        found += [[(e.start, e.end, e.label) for e in answer.entities] for answer in answers]
        yield {"seconds": seconds, "items": len(answers)}
    yield {"f1": _score(found)}


def reference_arm() -> Iterator[Lap]:
    """Find entities with a loop over the reference."""
    import torch
    from transformers import BertForTokenClassification, BertTokenizerFast

    model = BertForTokenClassification.from_pretrained(os.environ[RUN]).eval()
    tokenizer = BertTokenizerFast.from_pretrained(os.environ[RUN])
    records = _records()
    words = [[r.text[start:end] for start, end in r.words] for r in records]  # type: ignore[attr-defined]
    names = model.config.id2label

    @torch.inference_mode()
    def tags_of(batch: list[list[str]]) -> list[list[str]]:
        encoded = tokenizer(
            batch, is_split_into_words=True, truncation=True, padding=True, return_tensors="pt"
        )
        best = model(**encoded).logits.argmax(-1).tolist()
        tags = []
        for number, row in enumerate(batch):
            found = ["O"] * len(row)
            last = None
            for place, word in enumerate(encoded.word_ids(number)):
                if word is not None and word != last:
                    found[word] = names[best[number][place]]
                last = word
            tags.append(found)
        return tags

    tags_of(words[:64])
    yield {"ready": "fp32"}
    size = -(-len(records) // LAPS)
    tags: list[list[str]] = []
    for first in range(0, len(records), size):
        part = words[first : first + size]
        started = time.perf_counter()
        for start in range(0, len(part), BATCH):
            tags += tags_of(part[start : start + BATCH])
        yield {"seconds": time.perf_counter() - started, "items": len(part)}
    from seqeval.metrics.sequence_labeling import get_entities

    found = [
        [(r.words[start][0], r.words[end][1], kind) for kind, start, end in get_entities(row)]  # type: ignore[attr-defined]
        for r, row in zip(records, tags, strict=True)
    ]
    yield {"f1": _score(found)}


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def run() -> list[dict[str, object]]:
    """Train a model, race the arms on it, and return the row."""
    import heedful

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        heedful.train(
            "tag",
            train=FOLDER / "conll2003/train.bio.txt.gz",
            format="conll",
            steps=STEPS,
            learning_rate=1e-4,
            out=out,
        )
        os.environ[RUN] = str(out)
        laps = race("benchmarks.tag", list(ARMS))
    rates = {name: total(runs, "items") / total(runs, "seconds") for name, runs in laps.items()}
    return [
        {
            "name": "sentence to entities over the CoNLL-2003 test set, against a transformers "
            "4.57.6 loop, fp32, batches of 32 as they come",
            "ours": rates["heedful"],
            "peer": rates["reference"],
            "ratio": rates["heedful"] / rates["reference"],
            "unit": "sentences/s",
            "quality": f"F1 {laps['heedful'][-1]['f1']:.4f} / {laps['reference'][-1]['f1']:.4f}",
            "memory": f"{laps['heedful'][-2]['peak']:,} / {laps['reference'][-2]['peak']:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)

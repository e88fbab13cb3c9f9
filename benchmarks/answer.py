"""From question and context to answer over part of XQuAD, against a loop over the reference.

Both use the weights of one run that heedful trains first. The reference's loop does what its own
example script does: pairs to windows of 384 tokens with a stride of 128, batches of 32 as they come
in fp32, then for each question the best of the 20 likeliest starts with the 20 likeliest ends, up
to 30 tokens apart. Answers are scored by the same code for both.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

LAPS, STEPS, BATCH, QUESTIONS = 4, 200, 32, 400
LENGTH, STRIDE, LIKELIEST, LONGEST = 384, 128, 20, 30
TRAIN, TEST = FOLDER / "squad/squadshifts_new_wiki_v1.0.json.gz", FOLDER / "squad/xquad.en.json.gz"
RUN = "HEEDFUL_BENCHMARK_ANSWER_RUN"


def _records() -> list[Any]:
    from heedful.settings import ColumnSettings
    from heedful.tasks.answer import Answer

    return list(Answer.read([TEST], ColumnSettings(), labelled=True))[::3][:QUESTIONS]


def _score(found: list[str]) -> dict[str, Any]:
    from heedful.metrics import AnswerScores

    scores = AnswerScores(no_answer=False)
    for text, record in zip(found, _records(), strict=True):
        right = [answer.text for answer in record.answers]
        scores.update(text, right, answered=True, margin=0.0)
    return scores.compute()


def heedful_arm() -> Iterator[Lap]:
    """Answer with heedful."""
    from heedful.predictor import Predictor
    from heedful.training.allocator import keep_big_buffers

    keep_big_buffers()
    predictor = Predictor.load(os.environ[RUN])
    records = _records()
    list(predictor.answers(records[:16]))
    yield {"ready": str(predictor.precision.dtype)}
    size = QUESTIONS // LAPS
    found: list[str] = []
    for first in range(0, QUESTIONS, size):
        started = time.perf_counter()
        answers = list(predictor.answers(records[first : first + size]))
        seconds = time.perf_counter() - started
        found += [answer.answer or "" for answer in answers]
        yield {"seconds": seconds, "items": size}
    yield _score(found)


def reference_arm() -> Iterator[Lap]:
    """Answer with a loop over the reference."""
    import torch
    from transformers import BertForQuestionAnswering, BertTokenizerFast

    model = BertForQuestionAnswering.from_pretrained(os.environ[RUN]).eval()
    tokenizer = BertTokenizerFast.from_pretrained(os.environ[RUN])
    records = _records()

    @torch.inference_mode()
    def answers_of(batch: list[Any]) -> list[str]:
        encoded = tokenizer(
            [record.question for record in batch],
            [record.context for record in batch],
            truncation="only_second",
            max_length=LENGTH,
            stride=STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        owners = encoded.pop("overflow_to_sample_mapping").tolist()
        offsets = encoded.pop("offset_mapping").tolist()
        output = model(**encoded)
        starts, ends = output.start_logits.numpy(), output.end_logits.numpy()
        best = [(-float("inf"), "")] * len(batch)
        for window, owner in enumerate(owners):
            inside = [part == 1 for part in encoded.sequence_ids(window)]
            first = starts[window].argsort()[-1 : -LIKELIEST - 1 : -1].tolist()
            last = ends[window].argsort()[-1 : -LIKELIEST - 1 : -1].tolist()
            for start in first:
                for end in last:
                    if not (inside[start] and inside[end] and start <= end < start + LONGEST):
                        continue
                    score = float(starts[window, start] + ends[window, end])
                    if score > best[owner][0]:
                        left, right = offsets[window][start][0], offsets[window][end][1]
                        best[owner] = (score, batch[owner].context[left:right])
        return [text for _, text in best]

    answers_of(records[:16])
    yield {"ready": "fp32"}
    size = QUESTIONS // LAPS
    found: list[str] = []
    for first in range(0, QUESTIONS, size):
        part = records[first : first + size]
        started = time.perf_counter()
        for start in range(0, size, BATCH):
            found += answers_of(part[start : start + BATCH])
        yield {"seconds": time.perf_counter() - started, "items": size}
    yield _score(found)


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def run() -> list[dict[str, object]]:
    """Train a model, race the arms on it, and return the row."""
    import heedful

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        heedful.train(
            "answer",
            train=TRAIN,
            max_length=LENGTH,
            steps=STEPS,
            batch_size=16,
            learning_rate=1e-4,
            out=out,
        )
        os.environ[RUN] = str(out)
        laps = race("benchmarks.answer", list(ARMS))
    rates = {name: total(runs, "items") / total(runs, "seconds") for name, runs in laps.items()}
    quality = {
        name: f"{runs[-1]['f1']:.3f} / {runs[-1]['exact_match']:.3f}" for name, runs in laps.items()
    }
    return [
        {
            "name": f"question to answer over {QUESTIONS} questions of XQuAD, against a "
            "transformers 4.57.6 loop, fp32, batches of 32 as they come",
            "ours": rates["heedful"],
            "peer": rates["reference"],
            "ratio": rates["heedful"] / rates["reference"],
            "unit": "questions/s",
            "quality": f"F1 / exact match {quality['heedful']}, {quality['reference']}",
            "memory": f"{laps['heedful'][-2]['peak']:,} / {laps['reference'][-2]['peak']:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)

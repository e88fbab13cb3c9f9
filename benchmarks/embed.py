"""Vectors of AG News by MiniLM as it is, sorted by the nearest mean of a class: no training.

The means are those of the whole training pool for heedful's figure; for the race both take the
first 2,000 texts of it. The reference is a loop over transformers: batches of 32 as they come in
fp32, the mean over each text's tokens, length 1.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.data import LABELS, ag_news
from benchmarks.race import Lap, race, run_laps, total

if TYPE_CHECKING:
    from torch import Tensor

POOL, TEXTS, LAPS, BATCH = 2000, 7600, 5, 32


def _labels(records: list[Any]) -> "Tensor":
    import torch

    return torch.tensor([LABELS.index((record.labels or ("",))[0]) for record in records])


def _accuracy(pool: "Tensor", pool_labels: "Tensor", test: "Tensor", labels: "Tensor") -> float:
    """Return the share of the test vectors whose nearest class mean is their class."""
    import torch
    import torch.nn.functional as F

    means = torch.stack([pool[pool_labels == number].mean(0) for number in range(len(LABELS))])
    nearest = (F.normalize(test, dim=-1) @ F.normalize(means, dim=-1).T).argmax(-1)
    return float((nearest == labels).float().mean())


def heedful_arm() -> Iterator[Lap]:
    """Embed with heedful."""
    import torch

    from heedful.predictor import Predictor
    from heedful.training.allocator import keep_big_buffers

    keep_big_buffers()
    predictor = Predictor.load("minilm")

    def vectors(records: list[Any]) -> torch.Tensor:
        return torch.stack([answer.vector for answer in predictor.predict(r.text for r in records)])

    yield from _laps(vectors, str(predictor.precision.dtype), whole_pool=True)


def reference_arm() -> Iterator[Lap]:
    """Embed with a loop over the reference."""
    import torch
    import torch.nn.functional as F
    from transformers import BertModel, BertTokenizerFast

    from heedful.sources import resolve

    model = BertModel.from_pretrained(resolve("minilm")).eval()
    tokenizer = BertTokenizerFast.from_pretrained(resolve("minilm"))

    @torch.inference_mode()
    def vectors(records: list[Any]) -> torch.Tensor:
        found = []
        for start in range(0, len(records), BATCH):
            texts = [record.text for record in records[start : start + BATCH]]
            batch = tokenizer(
                texts, padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            hidden = model(**batch).last_hidden_state
            real = batch["attention_mask"][..., None].float()
            found.append(F.normalize((hidden * real).sum(1) / real.sum(1), dim=-1))
        return torch.cat(found)

    yield from _laps(vectors, "fp32", whole_pool=False)


def _laps(vectors: Any, ready: str, *, whole_pool: bool) -> Iterator[Lap]:
    import torch

    pool, test = ag_news("train_pool"), ag_news("test")
    first = pool[:POOL]
    vectors(first[:64])
    yield {"ready": ready}
    found, size = [], TEXTS // LAPS
    for start in range(0, TEXTS, size):
        started = time.perf_counter()
        found.append(vectors(test[start : start + size]))
        yield {"seconds": time.perf_counter() - started}
    known = vectors(first)
    lap = {"accuracy": _accuracy(known, _labels(first), torch.cat(found), _labels(test))}
    if whole_pool:
        known = vectors(pool)
        lap["whole"] = _accuracy(known, _labels(pool), torch.cat(found), _labels(test))
    yield lap


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def run() -> list[dict[str, object]]:
    """Race the arms and return the row."""
    laps = race("benchmarks.embed", list(ARMS))
    rates = {name: TEXTS / total(runs, "seconds") for name, runs in laps.items()}
    ours, peer = laps["heedful"][-1], laps["reference"][-1]
    return [
        {
            "name": "text to vector over the AG News test set, against a transformers 4.57.6 loop, "
            "fp32, batches of 32 as they come",
            "ours": rates["heedful"],
            "peer": rates["reference"],
            "ratio": rates["heedful"] / rates["reference"],
            "unit": "texts/s",
            "quality": f"nearest class mean of {POOL:,} texts {ours['accuracy']:.4f} / "
            f"{peer['accuracy']:.4f}; of the pool {ours['whole']:.4f}",
            "memory": f"{laps['heedful'][-2]['peak']:,} / {laps['reference'][-2]['peak']:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)

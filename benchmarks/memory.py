"""Peak memory of training at a sequence length of 512, with checkpointing and chunking.

Each arm takes three steps on 8 sequences of 512 tokens with a model of MiniLM's size, in float32
and without dropout, and reports the most memory its process ever held, less what it held before the
first step.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.race import Lap, peak_memory, race, run_laps

if TYPE_CHECKING:
    from torch import Tensor, nn

BATCH, LENGTH, STEPS, CHUNK = 8, 512, 3, 64


def heedful_arm(*, checkpointing: bool, chunk: int) -> Iterator[Lap]:
    """Train heedful's model."""
    import torch

    from heedful import BertConfig, BertForSequenceClassification
    from heedful.sources import resolve
    from heedful.training.allocator import keep_big_buffers, return_big_buffers

    if checkpointing:  # as the command line does
        return_big_buffers()
    else:
        keep_big_buffers()
    config = BertConfig.read(resolve("minilm") / "config.json")
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(replace(config, chunk_size_feed_forward=chunk, **still))
    model.gradient_checkpointing = checkpointing
    model.train()
    ids = torch.randint(1000, 30000, (BATCH, LENGTH))
    labels = torch.randint(2, (BATCH,))
    yield from _steps(lambda: model(ids, labels=labels).loss, model)


def reference_arm(*, checkpointing: bool, chunk: int) -> Iterator[Lap]:
    """Train the reference's model."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from heedful.sources import resolve

    config = BertConfig.from_pretrained(
        resolve("minilm"),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        chunk_size_feed_forward=chunk,
    )
    model = BertForSequenceClassification(config)
    if checkpointing:
        model.gradient_checkpointing_enable()
    model.train()
    ids = torch.randint(1000, 30000, (BATCH, LENGTH))
    labels = torch.randint(2, (BATCH,))
    yield from _steps(lambda: model(ids, labels=labels).loss, model)


def _steps(loss: "Callable[[], Tensor]", model: "nn.Module") -> Iterator[Lap]:
    before = peak_memory()
    yield {"ready": before}
    started = time.perf_counter()
    for _ in range(STEPS):
        model.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
    yield {"seconds": time.perf_counter() - started, "used": peak_memory() - before}


WAYS = {
    "plain": {"checkpointing": False, "chunk": 0},
    "chunks": {"checkpointing": False, "chunk": CHUNK},
    "checkpointing": {"checkpointing": True, "chunk": 0},
    "both": {"checkpointing": True, "chunk": CHUNK},
}
ARMS = {
    f"{who}-{way}": partial(arm, **options)  # type: ignore[arg-type]
    for who, arm in (("heedful", heedful_arm), ("reference", reference_arm))
    for way, options in WAYS.items()
}
NAMES = {
    "plain": "as it is",
    "chunks": f"feed-forward in chunks of {CHUNK}",
    "checkpointing": "gradient checkpointing",
    "both": "gradient checkpointing and chunks",
}


def run() -> Iterator[dict[str, object]]:
    """Take the steps with each arm, one process after another, and give a row for each way."""
    for way, text in NAMES.items():
        ours, peer = (
            race("benchmarks.memory", [name])[name][0]
            for name in (f"heedful-{way}", f"reference-{way}")
        )
        rates = [STEPS * BATCH * LENGTH / lap["seconds"] for lap in (ours, peer)]
        yield {
            "name": f"memory of training at {LENGTH} tokens, {text}, against transformers "
            "4.57.6 with the same",
            "ours": ours["used"],
            "peer": peer["used"],
            "ratio": peer["used"] / ours["used"],
            "unit": "MiB",
            "quality": f"{rates[0]:,.0f} / {rates[1]:,.0f} tokens/s",
        }


if __name__ == "__main__":
    run_laps(ARMS)

"""What a token costs in texts of more and more tokens: BigBird by blocks, and reading them whole.

    python -m benchmarks.long [LENGTH ...] [--laps 3] [--part answers|training]

One text at a time goes through a classifier of 6 layers of width 384 with random weights, in
float32. Answers come from the compiled form; training computes the loss and its gradients. The arms
take turns.
"""

import argparse
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from benchmarks.families import seconds
from benchmarks.far import SIZES
from heedful.compiled.model import compile_model
from heedful.models import BigBirdConfig, BigBirdForSequenceClassification

LENGTHS = (512, 1024, 2048, 4096)
ARMS = {"by blocks": "block_sparse", "whole": "original_full"}
"""Names, and the ``attention_type`` of each. Up to 704 tokens both read a text whole."""


def model_of(kind: str) -> BigBirdForSequenceClassification:
    """Make a classifier."""
    torch.manual_seed(0)
    sizes = SIZES | {"max_position_embeddings": max(LENGTHS)}
    return BigBirdForSequenceClassification(BigBirdConfig(**sizes, attention_type=kind))


def answers(kind: str, ids: Tensor) -> Callable[[], object]:
    """Return a function that classifies a text once."""
    model = compile_model(model_of(kind).eval()).model

    @torch.inference_mode()
    def lap() -> object:
        return model(ids).logits

    return lap


def training(kind: str, ids: Tensor) -> Callable[[], object]:
    """Return a function that learns from a text once."""
    model = model_of(kind).train()

    def lap() -> object:
        model.zero_grad(set_to_none=True)
        return model(ids, labels=torch.tensor([1])).loss.backward()

    return lap


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS, help="of the texts")
    parser.add_argument("--laps", type=int, default=3, help="turns of each length")
    parser.add_argument("--part", choices=["answers", "training"], default="answers")
    given = parser.parse_args()
    make = {"answers": answers, "training": training}[given.part]
    print(f"| tokens | {' | '.join(f'{arm}, tokens/s' for arm in ARMS)} | times as fast |")
    print("|---|---|---|---|")
    for length in given.lengths:
        ids = torch.randint(10, 1000, (1, length), generator=torch.Generator().manual_seed(1))
        laps = {arm: make(kind, ids) for arm, kind in ARMS.items()}
        for lap in laps.values():
            lap()
        times: dict[str, list[float]] = {arm: [] for arm in laps}
        for _ in range(given.laps):
            for arm, lap in laps.items():
                times[arm].append(seconds(lap))
        rates = [length / median(each) for each in times.values()]
        cells = " | ".join(f"{rate:,.0f}" for rate in rates)
        print(f"| {length:,} | {cells} | {rates[0] / rates[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Compare BigBird's block-sparse attention with full attention on longer and longer texts.

    python -m benchmarks.long [LENGTH ...] [--laps 3] [--part answers|training]

A classifier with 6 layers of width 384 and random weights processes one text at a time, in float32.
`answers` measures inference, with the compiled model; `training` computes the loss and its
gradients. The arms take turns.
"""

import argparse
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from benchmarks.custom_attention import SIZES
from benchmarks.families import seconds
from heedful.compiled.model import compile_model
from heedful.models import BigBirdConfig, BigBirdForSequenceClassification

LENGTHS = (512, 1024, 2048, 4096)
ARMS = {"by blocks": "block_sparse", "whole": "original_full"}
"""Arms, and the ``attention_type`` of each. Up to 704 tokens, both use full attention."""


def model_of(kind: str) -> BigBirdForSequenceClassification:
    """Create a classifier with random weights."""
    torch.manual_seed(0)
    sizes = SIZES | {"max_position_embeddings": max(LENGTHS)}
    return BigBirdForSequenceClassification(BigBirdConfig(**sizes, attention_type=kind))


def inference(kind: str, ids: Tensor) -> Callable[[], object]:
    """Return a function that classifies a text once."""
    model = compile_model(model_of(kind).eval()).model

    @torch.inference_mode()
    def lap() -> object:
        return model(ids).logits

    return lap


def training(kind: str, ids: Tensor) -> Callable[[], object]:
    """Return a function that computes the gradients of a text once."""
    model = model_of(kind).train()

    def lap() -> object:
        model.zero_grad(set_to_none=True)
        return model(ids, labels=torch.tensor([1])).loss.backward()

    return lap


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "lengths", nargs="*", type=int, default=LENGTHS, help="lengths of the texts in tokens"
    )
    parser.add_argument("--laps", type=int, default=3, help="laps for each length")
    parser.add_argument(
        "--part", choices=["answers", "training"], default="answers", help="answers: inference"
    )
    args = parser.parse_args()
    make = {"answers": inference, "training": training}[args.part]
    print(f"| tokens | {' | '.join(f'{arm}, tokens/s' for arm in ARMS)} | times as fast |")
    print("|---|---|---|---|")
    for length in args.lengths:
        ids = torch.randint(10, 1000, (1, length), generator=torch.Generator().manual_seed(1))
        laps = {arm: make(kind, ids) for arm, kind in ARMS.items()}
        for lap in laps.values():
            lap()
        times: dict[str, list[float]] = {arm: [] for arm in laps}
        for _ in range(args.laps):
            for arm, lap in laps.items():
                times[arm].append(seconds(lap))
        rates = [length / median(each) for each in times.values()]
        cells = " | ".join(f"{rate:,.0f}" for rate in rates)
        print(f"| {length:,} | {cells} | {rates[0] / rates[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

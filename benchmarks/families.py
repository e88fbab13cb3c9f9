"""Compare the speed of each encoder family with BERT, at the same sizes.

    python -m benchmarks.families [--laps 9] [--precision fp32|bf16|int8]

Classifiers with 6 layers of width 384 and random weights process 16 texts of 8 to 64 tokens.
Inference uses the compiled model. Training computes the loss and its gradients; there is no
training in int8. The families take turns, and each lap is compared with BERT's laps of the same
turn.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from heedful.compiled.model import compile_model
from heedful.models import FAMILIES
from heedful.models.model import Model
from heedful.training.gradients import TableGradients

SIZES = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 514,
}
NAMES = {
    "distilbert": {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
    }
}
MORE: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 384},
    "electra": {"embedding_size": 384},
    "ernie": {"use_task_id": True},
}


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.float32}
"""Dtypes of the weights; int8 models are compiled from float32 weights."""


def model_of(family: str, precision: str) -> Model:
    """Create a classifier of a family with random weights."""
    torch.manual_seed(0)
    names = NAMES.get(family, {})
    sizes = {names.get(name, name): value for name, value in SIZES.items()}
    config = FAMILIES[family].config_class()(**sizes, **MORE.get(family, {}))
    model: Model = FAMILIES[family].model_class("sequence").from_config(config)
    return model.to(DTYPES[precision])


def batch() -> dict[str, torch.Tensor]:
    """Create a padded batch of random texts."""
    torch.manual_seed(1)
    lengths = torch.randint(8, 65, (16,))
    ids = torch.randint(10, SIZES["vocab_size"], (16, 64))
    mask = torch.arange(64) < lengths[:, None]
    return {"input_ids": ids.masked_fill(~mask, 1), "attention_mask": mask}


def inference(family: str, precision: str) -> Callable[[], object]:
    """Return a function that classifies the texts once."""
    inputs = batch()
    rows = [ids[mask][None] for ids, mask in zip(*inputs.values(), strict=True)]
    plain = model_of(family, precision).eval()
    model = compile_model(plain, (lambda: rows) if precision == "int8" else None).model

    @torch.inference_mode()
    def lap() -> object:
        return model(**inputs).logits

    return lap


def training(family: str, precision: str) -> Callable[[], object]:
    """Return a function that computes the gradients once."""
    model, inputs = model_of(family, precision).train(), batch()
    labels, tables = torch.arange(16) % 2, TableGradients(model)

    def lap() -> object:
        model.zero_grad(set_to_none=True)
        with tables.sparse():
            return model(**inputs, labels=labels).loss.backward()

    return lap


PARTS = {"inference": inference, "training": training}


def seconds(lap: Callable[[], object]) -> float:
    """Return the seconds of a lap."""
    start = time.perf_counter()
    lap()
    return time.perf_counter() - start


def compare(arms: dict[str, Callable[[], object]], laps: int) -> dict[str, list[float]]:
    """Return how many times as fast each family is as BERT, for each turn."""
    for lap in arms.values():
        lap()
    ratios: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(laps):
        first = seconds(arms["bert"])
        times = {name: seconds(lap) for name, lap in arms.items() if name != "bert"}
        # BERT runs at both ends of a turn, so a drift of the CPU's speed cancels out.
        bert = (first + seconds(arms["bert"])) / 2
        for name, taken in times.items():
            ratios[name].append(bert / taken)
        ratios["bert"].append(1.0)
    return ratios


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=9, help="laps of inference and of training")
    parser.add_argument("--precision", choices=list(DTYPES), default="fp32")
    args = parser.parse_args()
    families = [name for name, family in FAMILIES.items() if "masked_lm" in family.models]
    parts = {"inference": inference} if args.precision == "int8" else PARTS
    ratios = [
        compare({name: make(name, args.precision) for name in families}, args.laps)
        for make in parts.values()
    ]
    print(f"| family | {' | '.join(parts)} |\n|{'---|' * (1 + len(parts))}")
    for name in families:
        cells = [
            f"{median(part[name]):.2f} ({min(part[name]):.2f} to {max(part[name]):.2f})"
            for part in ratios
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

"""Compare the speed of families with their own attention (DeBERTa, XLNet, ...) with the reference.

    python -m benchmarks.custom_attention [ROW ...] [--laps 5] [--precision fp32|bf16]

heedful and the reference have the same weights and classify the same padded batch. If the reference
has several attention implementations, the fastest one counts. For inference, heedful uses its
compiled model. Training computes the loss and its gradients, with dropout. The arms take turns, and
each lap of heedful is compared with the reference's laps of the same turn. The table also has the
largest difference between the logits.

The reference, transformers, is in the extra [dev].
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.families import seconds
from heedful.compiled.model import compile_model
from heedful.models import FAMILIES
from heedful.models.model import Model
from heedful.training.gradients import TableGradients

Lap = Callable[[], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A family and the batch to compare it on."""

    family: str
    options: dict[str, Any] = field(default_factory=dict)
    """Configuration values in addition to ``SIZES``."""
    texts: int = 16
    lengths: tuple[int, int] = (16, 128)
    """Minimum and maximum number of tokens of a text."""
    names: dict[str, str] = field(default_factory=dict)
    """The family's own names for keys of ``SIZES``; "" for keys that it does not have."""
    pads_left: bool = False
    """Whether the family pads texts on the left."""
    implementations: tuple[str, ...] = ("eager",)
    """Attention implementations of the reference: values of ``attn_implementation``."""


SIZES: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}

_DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
_LONG = {"max_position_embeddings": 4096}

ROWS: dict[str, Row] = {
    # The reference chooses its attention by the longest text of a batch, so the logits differ.
    "big_bird": Row(family="big_bird", options=_LONG, texts=4, lengths=(705, 2048)),
    "big_bird, one text": Row(family="big_bird", options=_LONG, texts=1, lengths=(2048, 2048)),
    "deberta": Row(family="deberta", options=_DISENTANGLED),
    "deberta-v2": Row(
        family="deberta-v2",
        options={
            **_DISENTANGLED,
            "position_buckets": 256,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    ),
    "xlnet": Row(
        family="xlnet",
        names={
            "hidden_size": "d_model",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "intermediate_size": "d_inner",
            "max_position_embeddings": "",
        },
        pads_left=True,
    ),
}


def sizes_of(row: Row) -> dict[str, Any]:
    """Return the values of the family's configuration."""
    named = {row.names.get(name, name): value for name, value in SIZES.items()}
    return {name: value for name, value in named.items() if name} | row.options


def models_of(row: Row, dtype: torch.dtype) -> tuple[Model, dict[str, nn.Module]]:
    """Create heedful's model and the reference's models with the same random weights.

    The reference has one model for each attention implementation.
    """
    import transformers

    home = FAMILIES[row.family]
    config = getattr(transformers, home.config)
    torch.manual_seed(0)
    theirs: dict[str, nn.Module] = {}
    for implementation in row.implementations:
        values = {**sizes_of(row), "attn_implementation": implementation}
        theirs[implementation] = getattr(transformers, home.models["sequence"])(
            config(**values)
        ).to(dtype)
    first = theirs[row.implementations[0]]
    for other in theirs.values():
        other.load_state_dict(first.state_dict())
    ours = home.model_class("sequence")(home.config_class()(**sizes_of(row)))
    ours.set_file_weights(dict(first.state_dict()), Path("the reference"))
    return ours.to(dtype), theirs


def batch(row: Row) -> dict[str, Tensor]:
    """Create a padded batch of random texts."""
    torch.manual_seed(1)
    low, high = row.lengths
    lengths = torch.randint(low, high + 1, (row.texts,))
    lengths[0] = high
    mask = torch.arange(high) < lengths[:, None]
    if row.pads_left:
        mask = mask.flip(1)
    ids = torch.randint(10, SIZES["vocab_size"], mask.shape).masked_fill(~mask, 0)
    return {"input_ids": ids, "attention_mask": mask.long()}


def inference(row: Row, dtype: torch.dtype) -> dict[str, Lap]:
    """Return for each arm a function that classifies the texts once."""
    ours, theirs = models_of(row, dtype)
    inputs = batch(row)

    def arm(model: Any) -> Lap:
        @torch.inference_mode()
        def lap() -> Tensor:
            logits: Tensor = model(**inputs).logits
            return logits

        return lap

    compiled = compile_model(ours.eval()).model
    return {
        "heedful": arm(compiled),
        **{implementation: arm(x.eval()) for implementation, x in theirs.items()},
    }


def training(row: Row, dtype: torch.dtype) -> dict[str, Lap]:
    """Return for each arm a function that computes the gradients once."""
    ours, theirs = models_of(row, dtype)
    inputs = batch(row) | {"labels": torch.arange(row.texts) % 2}
    tables = TableGradients(ours.train())

    def our_lap() -> Tensor:
        ours.zero_grad(set_to_none=True)
        with tables.sparse():
            output = ours(**inputs)
            output.loss.backward()
        return output.logits.detach()

    def arm(model: nn.Module) -> Lap:
        def lap() -> Tensor:
            model.zero_grad(set_to_none=True)
            output = model(**inputs)
            output.loss.backward()
            logits: Tensor = output.logits.detach()
            return logits

        return lap

    return {
        "heedful": our_lap,
        **{implementation: arm(x.train()) for implementation, x in theirs.items()},
    }


def warm_seconds(lap: Lap) -> float:
    """Run a lap twice and return the seconds of the second.

    Training steps also follow each other. A lap right after another arm's lap would have to lay out
    its memory again.
    """
    lap()
    return seconds(lap)


def compare(arms: dict[str, Lap], laps: int) -> list[float]:
    """Return how many times as fast heedful is as the fastest reference, for each turn."""
    times = {name: [warm_seconds(lap) for _ in range(2)] for name, lap in arms.items()}
    fastest = min((name for name in arms if name != "heedful"), key=lambda name: min(times[name]))
    ratios = []
    for _ in range(laps):
        first = warm_seconds(arms[fastest])
        taken = warm_seconds(arms["heedful"])
        # The reference runs at both ends of a turn, so a drift of the CPU's speed cancels out.
        ratios.append((first + warm_seconds(arms[fastest])) / 2 / taken)
    return ratios


def largest_difference(arms: dict[str, Lap]) -> float:
    """Return the largest difference between heedful's logits and the first reference's."""
    ours, theirs = (lap().float() for lap in list(arms.values())[:2])
    return float((ours - theirs).abs().max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="rows to measure; default: all")
    parser.add_argument("--laps", type=int, default=5, help="laps of inference and of training")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    args = parser.parse_args()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[args.precision]
    print("| row | inference | training | largest difference between logits |\n|---|---|---|---|")
    for name in args.rows:
        arms = inference(ROWS[name], dtype)
        parts = [compare(arms, args.laps), compare(training(ROWS[name], dtype), args.laps)]
        cells = [f"{median(part):.2f} ({min(part):.2f} to {max(part):.2f})" for part in parts]
        print(f"| {name} | {' | '.join(cells)} | {largest_difference(arms):.1e} |", flush=True)


if __name__ == "__main__":
    main()

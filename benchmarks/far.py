"""How fast families with attention of their own are beside the reference, with the same weights.

    python -m benchmarks.far [ROW ...] [--laps 5] [--precision fp32|bf16]

Each arm of a row classifies the same padded batch: heedful, and the reference in each of the ways
in which it attends, of which the fastest counts. Answers come from heedful's compiled form;
training computes the loss and its gradients, with dropout. The arms take turns, and each lap is
compared with the reference's of the same turn. What they answer is compared, too.

It needs the extra [dev], which has the reference.
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
    """What is compared of a family."""

    family: str
    options: dict[str, Any] = field(default_factory=dict)
    """Of its configuration, beside ``SIZES``."""
    texts: int = 16
    lengths: tuple[int, int] = (16, 128)
    """The least and the greatest number of tokens of a text."""
    names: dict[str, str] = field(default_factory=dict)
    """What its configuration calls some of ``SIZES``; "" for what it has not."""
    pads_left: bool = False
    """Whether its texts are filled up on the left."""
    ways: tuple[str, ...] = ("eager",)
    """How the reference attends: what its ``attn_implementation`` may be."""


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
    # The longest text of a batch decides how the reference reads all of them, so answers differ.
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
    """Return the keys of a configuration."""
    named = {row.names.get(name, name): value for name, value in SIZES.items()}
    return {name: value for name, value in named.items() if name} | row.options


def models_of(row: Row, dtype: torch.dtype) -> tuple[Model, dict[str, nn.Module]]:
    """Make ours and the reference's, one for each way, with the same random weights."""
    import transformers

    home = FAMILIES[row.family]
    config = getattr(transformers, home.config)
    torch.manual_seed(0)
    theirs: dict[str, nn.Module] = {}
    for way in row.ways:
        values = {**sizes_of(row), "attn_implementation": way}
        theirs[way] = getattr(transformers, home.models["sequence"])(config(**values)).to(dtype)
    first = theirs[row.ways[0]]
    for other in theirs.values():
        other.load_state_dict(first.state_dict())
    ours = home.model_class("sequence")(home.config_class()(**sizes_of(row)))
    ours.set_file_weights(dict(first.state_dict()), Path("the reference"))
    return ours.to(dtype), theirs


def batch(row: Row) -> dict[str, Tensor]:
    """Draw the texts."""
    torch.manual_seed(1)
    low, high = row.lengths
    lengths = torch.randint(low, high + 1, (row.texts,))
    lengths[0] = high
    mask = torch.arange(high) < lengths[:, None]
    if row.pads_left:
        mask = mask.flip(1)
    ids = torch.randint(10, SIZES["vocab_size"], mask.shape).masked_fill(~mask, 0)
    return {"input_ids": ids, "attention_mask": mask.long()}


def answers(row: Row, dtype: torch.dtype) -> dict[str, Lap]:
    """Return each arm's function that answers the texts once."""
    ours, theirs = models_of(row, dtype)
    inputs = batch(row)

    def arm(model: Any) -> Lap:
        @torch.inference_mode()
        def lap() -> Tensor:
            logits: Tensor = model(**inputs).logits
            return logits

        return lap

    compiled = compile_model(ours.eval()).model
    return {"heedful": arm(compiled), **{way: arm(x.eval()) for way, x in theirs.items()}}


def training(row: Row, dtype: torch.dtype) -> dict[str, Lap]:
    """Return each arm's function that computes gradients once."""
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

    return {"heedful": our_lap, **{way: arm(x.train()) for way, x in theirs.items()}}


def settled(lap: Lap) -> float:
    """Time a lap that follows another of its own, as steps of a training do.

    After a lap of another arm, what memory that has left would have to be laid out anew.
    """
    lap()
    return seconds(lap)


def compare(arms: dict[str, Lap], laps: int) -> list[float]:
    """Return the time of the reference's fastest way over ours, turn by turn: more is faster."""
    times = {name: [settled(lap) for _ in range(2)] for name, lap in arms.items()}
    fastest = min((name for name in arms if name != "heedful"), key=lambda name: min(times[name]))
    ratios = []
    for _ in range(laps):
        first = settled(arms[fastest])
        taken = settled(arms["heedful"])
        # The reference stands at both ends of a turn, so that a drift of the clock counts for none.
        ratios.append((first + settled(arms[fastest])) / 2 / taken)
    return ratios


def differ(arms: dict[str, Lap]) -> float:
    """Return the largest difference between our answers and those of the reference's first way."""
    ours, theirs = (lap().float() for lap in list(arms.values())[:2])
    return float((ours - theirs).abs().max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="all by default")
    parser.add_argument("--laps", type=int, default=5, help="turns of each part")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    given = parser.parse_args()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[given.precision]
    print("| row | answers | training | largest difference of a logit |\n|---|---|---|---|")
    for name in given.rows:
        arms = answers(ROWS[name], dtype)
        parts = [compare(arms, given.laps), compare(training(ROWS[name], dtype), given.laps)]
        cells = [f"{median(part):.2f} ({min(part):.2f} to {max(part):.2f})" for part in parts]
        print(f"| {name} | {' | '.join(cells)} | {differ(arms):.1e} |", flush=True)


if __name__ == "__main__":
    main()

"""Loops over transformers, as its users write them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.trial import Trial

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def optimizer_of(model: "nn.Module", rate: float, *, fused: bool = False) -> "Optimizer":
    """Make AdamW with the weight decay that BERT is trained with; fused, it is sooner done."""
    import torch

    undecayed = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not n.endswith(undecayed)], "weight_decay": 0.01},
        {"params": [p for n, p in named if n.endswith(undecayed)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, fused=fused)


def learn(
    trial: Trial,
    model: Any,
    laps: Iterable[Sequence[Any]],
    batch_of: Callable[[Any], tuple[dict[str, Any], int]],
    *,
    rate: float,
    steps: int,
    bf16: bool,
) -> None:
    """Take the laps.

    Args:
        trial: takes them.
        model: of transformers, whose loss is learnt from.
        laps: what to make the batches of each lap from.
        batch_of: makes a batch, and says how many tokens of text it has.
        rate: the highest learning rate.
        steps: of all laps.
        bf16: whether to compute in bf16 by autocast.
    """
    import torch
    from transformers import get_linear_schedule_with_warmup

    torch.set_num_threads(trial.threads)
    optimizer = optimizer_of(model, rate)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    model.train()
    for lap in trial.laps(laps):
        for item in lap:
            batch, tokens = batch_of(item)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            loss.item()  # as it is logged
            trial.count(tokens)

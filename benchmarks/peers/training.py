"""A training loop for transformers, as its users write it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def optimizer_of(model: "nn.Module", rate: float, *, fused: bool = False) -> "Optimizer":
    """Create AdamW with the weight decay of BERT; the fused version is faster."""
    import torch

    undecayed = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not n.endswith(undecayed)], "weight_decay": 0.01},
        {"params": [p for n, p in named if n.endswith(undecayed)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, fused=fused)


def train(
    trial: Trial,
    model: Any,
    laps: Iterable[Sequence[Any]],
    batch_of: Callable[[Any], tuple[dict[str, Any], int]],
    *,
    rate: float,
    steps: int,
    bf16: bool,
) -> None:
    """Train a model, and time the laps.

    Args:
        trial: Trial that times the laps.
        model: A model of transformers, which returns its loss.
        laps: For each lap, the items to make its batches from.
        batch_of: Returns the batch of an item, and its number of tokens without padding.
        rate: Peak learning rate.
        steps: Number of steps of all laps.
        bf16: Whether to compute in bf16 with autocast.
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
            loss.item()  # a loop that logs the loss waits for it, too
            trial.count(tokens)

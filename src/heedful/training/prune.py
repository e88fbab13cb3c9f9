"""``--prune``: remove the least important attention heads before training continues."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from heedful import files
from heedful.batches import Batch
from heedful.errors import UserError
from heedful.models.configs import read_pruned_heads, write_pruned_heads
from heedful.models.model import Model
from heedful.models.pruning import choose_heads, importance_of_heads, pruned_field
from heedful.settings import RunSettings
from heedful.task import AnyTask
from heedful.training import ranks
from heedful.training.examples import Examples
from heedful.training.progress import counted
from heedful.training.stream import Stream

CHOSEN = "pruned_heads.json"
"""File with the pruned heads: a resumed run removes the same heads without measuring again."""

_BLOCKS = {
    "head_mask": "encoder block",
    "decoder_head_mask": "decoder block",
    "cross_attn_head_mask": "cross-attention of block",
}

EXAMPLES = 512
"""Number of items to measure importance on, each in a separate batch as in the paper."""
TOGETHER = 32
"""Batch size if the loss of an item depends on the other items: one item alone has no gradient."""


def check_prunable(model: Model, run: RunSettings) -> None:
    """Reject a model whose heads cannot be pruned, before any data is read.

    Args:
        model: the model to prune.
        run: the run. If it is resumed and lists the pruned heads, importance is not measured again.

    Raises:
        UserError: the model has no prunable heads, or is not trained on the task yet.
    """
    if not model.head_masks():
        raise UserError(
            "--prune is for models with a single encoder or decoder, and for Transformer "
            "translators"
        )
    is_chosen = run.resume and (run.out / CHOSEN).is_file()
    if model.fresh_head_parameters() and not is_chosen:
        raise UserError(
            "--prune removes the attention heads that matter least to a trained model, but this "
            "model has a new head: train it without --prune, then give that run as --model"
        )


def prune(model: Model, task: AnyTask, examples: Examples | Stream, share: float, run: Path) -> str:
    """Prune the heads with the least importance for the loss (Michel et al. 2019).

    Args:
        model: the model, changed in place; see `check_prunable`.
        task: the task of the model.
        examples: the examples to measure importance on.
        share: share of all heads to prune, at least 0 and below 1.
        run: the run folder, which stores the choice.

    Returns:
        A summary for the user.

    Raises:
        UserError: so many heads cannot be removed.
    """
    assert isinstance(examples, Examples)  # only tasks with answers are pruned
    shapes = model.head_masks()
    num_heads = sum(blocks * heads for blocks, heads in shapes.values())
    if (run / CHOSEN).is_file():
        chosen = _read(run / CHOSEN, shapes)
    else:
        importance = _importance(model, task, examples)
        chosen = choose_heads(importance, round(share * num_heads), model.config)
        _write(run / CHOSEN, chosen)
    try:
        model.prune_heads(
            **{mask.replace("head_mask", "heads"): heads for mask, heads in chosen.items()}
        )
    except UserError as error:
        raise UserError(f"{run / CHOSEN}: {error}") from None
    pruned = [
        (mask, block, heads) for mask, blocks in chosen.items() for block, heads in blocks.items()
    ]
    names = _BLOCKS if len(chosen) > 1 else {"head_mask": "block"}
    summary = "; ".join(
        f"{names[mask]} {n}: {', '.join(map(str, heads))}" for mask, n, heads in pruned
    )
    count = sum(len(heads) for _, _, heads in pruned)
    return f"pruned the {count} of {num_heads} heads that matter least to the loss ({summary})"


def _read(path: Path, shapes: Collection[str]) -> dict[str, dict[int, list[int]]]:
    """Return the stored heads of each mask."""
    stored = files.read_json(path)
    fields = {pruned_field(mask): mask for mask in shapes}
    if len(fields) == 1:
        stored = dict.fromkeys(fields, stored)
    return {mask: read_pruned_heads(stored, field, str(path)) for field, mask in fields.items()}


def _write(path: Path, chosen: dict[str, dict[int, list[int]]]) -> None:
    """Write the heads in the format of the configuration: by field, if there are several."""
    fields = {pruned_field(mask): write_pruned_heads(heads) for mask, heads in chosen.items()}
    files.write_json(path, fields if len(fields) > 1 else next(iter(fields.values())))


def _importance(model: Model, task: AnyTask, examples: Examples) -> dict[str, Tensor]:
    """Return the importance of each head. For each mask, shape (L, H)."""
    device = next(model.parameters()).device

    def loss(batch: Batch, masks: dict[str, Tensor]) -> tuple[Tensor, Tensor | float]:
        return task.loss(partial(model, **masks), batch), task.loss_divisor(batch)

    # Evenly spaced over the data, which may be sorted by label.
    chosen = torch.linspace(0, examples.num_items - 1, min(examples.num_items, EXAMPLES)).long()
    size = TOGETHER if task.in_batch_loss else 1
    batches = (chosen[start : start + size].numpy() for start in range(0, len(chosen), size))
    rows = counted(batches, "batches measured")
    fetched = (
        replace(examples.fetch(row, 0), replicas=ranks.size()) for row in rows
    )  # on each rank
    return importance_of_heads(model, (batch.to(device) for batch in fetched), loss)

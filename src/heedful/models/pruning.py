"""Which attention heads matter, and models without those that do not (Michel et al. 2019).

Shapes: L blocks, H heads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from heedful.errors import UserError, listed
from heedful.layers.block import Attention
from heedful.models.configs import remaining
from heedful.models.encoder_config import EncoderConfig
from heedful.models.model import Model

Batch = TypeVar("Batch")


def prune_heads(
    attentions: Sequence[Attention],
    heads: Mapping[int, Sequence[int]],
    pruned: Mapping[int, Sequence[int]],
) -> dict[int, list[int]]:
    """Take heads out of attentions: their weights are gone.

    The other heads keep their numbers, and a later call goes on by them. Make an optimizer after
    this, not before: the weights that are left are new parameters.

    Args:
        attentions: of each block of a stack, those to itself or those to an encoder.
        heads: the numbers of the heads to take out, by the number of the block.
        pruned: those that were taken out before.

    Returns:
        Those that are taken out now.

    Raises:
        UserError: see ``check_heads``.
    """
    check_heads(attentions, heads)
    gone = {number: list(before) for number, before in pruned.items()}
    for number, more in heads.items():
        if more:
            gone[number] = sorted({*gone.get(number, ()), *more})
            _remove(attentions[number], set(more))
    return dict(sorted(gone.items()))


def check_heads(attentions: Sequence[Attention], heads: Mapping[int, Sequence[int]]) -> None:
    """Check that heads can be taken out; see ``prune_heads``.

    Raises:
        UserError: there is no such block or head, or it would be the block's last.
    """
    for number, gone in heads.items():
        if number not in range(len(attentions)):
            raise UserError(
                f"there is no block {number} to prune; there are 0 to {len(attentions) - 1}"
            )
        present = attentions[number].self.heads
        for head in gone:
            if head not in present:
                raise UserError(
                    f"block {number} has no head {head} to prune; it has {listed(present)}"
                )
        if set(gone) == set(present):
            raise UserError(f"pruning {sorted(gone)} leaves no head in block {number}; keep one")


def _remove(attention: Attention, gone: set[int]) -> None:
    inner, outer = attention.self, attention.output.dense
    kept = [number for number, head in enumerate(inner.heads) if head not in gone]
    rows = torch.arange(inner.query.out_features, device=inner.query.weight.device)
    rows = rows.view(len(inner.heads), -1)[kept].flatten()
    inner.heads = tuple(inner.heads[number] for number in kept)
    for linear in inner.projections():
        linear.weight = _part(linear.weight, 0, rows)
        if (bias := linear.bias) is not None:
            linear.bias = _part(bias, 0, rows)
        linear.out_features = len(rows)
    if inner.distance_embedding is not None:
        inner.distance_embedding.keep_heads(kept)
    outer.weight = _part(outer.weight, 1, rows)
    outer.in_features = len(rows)


def _part(parameter: Tensor, dimension: int, rows: Tensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().index_select(dimension, rows), parameter.requires_grad)


def pruned_field(mask: str) -> str:
    """Return the field of a configuration that says which heads of a mask were pruned."""
    return mask.replace("head_mask", "pruned_heads")


def importance_of_heads(
    model: Model,
    batches: Iterable[Batch],
    loss: Callable[[Batch, dict[str, Tensor]], tuple[Tensor, Tensor | float]],
    *,
    normalise: bool = True,
) -> dict[str, Tensor]:
    """Return how much the loss depends on each head.

    That is the mean of its absolute derivative by the head's mask (Michel et al. 2019, section
    4.1, equation 2).

    Args:
        model: is in evaluation mode meanwhile.
        batches: what ``loss`` understands. The mean is over batches: over examples, as in the
            paper, if each is a batch of its own; in larger ones those that pull both ways cancel.
        loss: for a batch and the masks of ``Model.head_masks``, which need a gradient, the loss as
            (sum, count), or several sums and counts, whose means are added.
        normalise: whether to divide by the norm of each block, as the paper does.

    Returns:
        For each mask shape (L, H), at least 0; 0 for heads that were pruned.

    Raises:
        UserError: there is no batch.
    """
    device = next(model.parameters()).device
    importance = {
        name: torch.zeros(shape, device=device) for name, shape in model.head_masks().items()
    }
    num_batches, training = 0, model.training
    model.eval()
    for batch in batches:
        masks = {
            name: torch.ones_like(total, requires_grad=True) for name, total in importance.items()
        }
        total, count = loss(batch, masks)
        # A batch with nothing to learn, where both are 0, has no slope.
        mean = (total / torch.as_tensor(count).clamp(min=1e-9)).sum()
        slopes = torch.autograd.grad(mean, list(masks.values()))
        for name, slope in zip(masks, slopes, strict=True):
            importance[name] += slope.abs()
        num_batches += 1
    model.train(training)
    if not num_batches:
        raise UserError("there is nothing to measure the importance of heads on")
    for name in importance:
        importance[name] /= num_batches
        if normalise:
            norm = importance[name].norm(dim=1, keepdim=True)
            importance[name] = importance[name] / norm.clamp(min=1e-20)
    return importance


def head_importance(
    model: Model,
    batches: Iterable[Batch],
    loss: Callable[[Batch, Tensor], tuple[Tensor, Tensor | float]],
    *,
    normalise: bool = True,
) -> Tensor:
    """Do the same for a model with one mask; ``loss`` takes that. Returns shape (L, H)."""
    importance = importance_of_heads(
        model, batches, lambda batch, masks: loss(batch, masks["head_mask"]), normalise=normalise
    )
    return importance["head_mask"]


def choose_heads(
    importance: Mapping[str, Tensor], number: int, config: object
) -> dict[str, dict[int, list[int]]]:
    """Choose heads to prune: those that matter least, but never the last of an attention.

    Args:
        importance: for each mask, shape (L, H).
        number: how many heads to choose.
        config: of the model; heads that it says are pruned are not chosen again.

    Returns:
        For each mask the numbers of the heads, by the number of the block; see ``prune_heads``.

    Raises:
        UserError: there are not so many heads to spare.
    """
    left: dict[tuple[str, int], list[int]] = {}
    ranked: list[tuple[float, str, int, int]] = []
    for mask, rows in importance.items():
        for block, row in enumerate(rows.tolist()):
            left[mask, block] = remaining(len(row), getattr(config, pruned_field(mask)), block)
            ranked += [(row[head], mask, block, head) for head in left[mask, block]]
    spare = sum(len(heads) - 1 for heads in left.values())
    if not 0 <= number <= spare:
        raise UserError(f"cannot prune {number} heads; the model has {spare} to spare")
    chosen: dict[str, dict[int, list[int]]] = {mask: {} for mask in importance}
    for _, mask, block, head in sorted(ranked, key=lambda candidate: candidate[0]):
        if number and len(left[mask, block]) > 1:
            left[mask, block].remove(head)
            chosen[mask].setdefault(block, []).append(head)
            number -= 1
    return {
        mask: {block: sorted(blocks[block]) for block in sorted(blocks)}
        for mask, blocks in chosen.items()
    }


def least_important(importance: Tensor, number: int, config: EncoderConfig) -> dict[int, list[int]]:
    """Do the same for a model with one mask. ``importance`` has shape (L, H)."""
    return choose_heads({"head_mask": importance}, number, config)["head_mask"]

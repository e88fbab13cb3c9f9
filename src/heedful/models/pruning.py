"""Attention head importance and head pruning (Michel et al. 2019).

Shapes: L blocks, H heads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from heedful.errors import UserError, join_names
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
    """Remove attention heads and their weights.

    Remaining heads keep their indices, which later calls use. Create the optimizer after this call,
    not before: the remaining weights are new parameters.

    Args:
        attentions: the self-attention or the cross-attention of each block of a stack.
        heads: indices of the heads to remove, by block index.
        pruned: heads removed earlier.

    Returns:
        All removed heads, earlier ones included, by block index.

    Raises:
        UserError: see ``check_heads``.
    """
    check_heads(attentions, heads)
    removed = {block: list(earlier) for block, earlier in pruned.items()}
    for block, new in heads.items():
        if new:
            removed[block] = sorted({*removed.get(block, ()), *new})
            _remove(attentions[block], set(new))
    return dict(sorted(removed.items()))


def check_heads(attentions: Sequence[Attention], heads: Mapping[int, Sequence[int]]) -> None:
    """Check that heads can be removed; see ``prune_heads``.

    Raises:
        UserError: a block or head does not exist, or no head of a block would remain.
    """
    for block, removed in heads.items():
        if block not in range(len(attentions)):
            raise UserError(
                f"there is no block {block} to prune; there are 0 to {len(attentions) - 1}"
            )
        present = attentions[block].self.heads
        for head in removed:
            if head not in present:
                raise UserError(
                    f"block {block} has no head {head} to prune; it has {join_names(present)}"
                )
        if set(removed) == set(present):
            raise UserError(f"pruning {sorted(removed)} leaves no head in block {block}; keep one")


def _remove(attention: Attention, removed: set[int]) -> None:
    inner, outer = attention.self, attention.output.dense
    kept = [index for index, head in enumerate(inner.heads) if head not in removed]
    rows = torch.arange(inner.query.out_features, device=inner.query.weight.device)
    rows = rows.view(len(inner.heads), -1)[kept].flatten()
    inner.heads = tuple(inner.heads[index] for index in kept)
    for linear in inner.projections():
        linear.weight = _select(linear.weight, 0, rows)
        if (bias := linear.bias) is not None:
            linear.bias = _select(bias, 0, rows)
        linear.out_features = len(rows)
    if inner.distance_embedding is not None:
        inner.distance_embedding.keep_heads(kept)
    outer.weight = _select(outer.weight, 1, rows)
    outer.in_features = len(rows)


def _select(parameter: Tensor, dimension: int, rows: Tensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().index_select(dimension, rows), parameter.requires_grad)


def pruned_field(mask: str) -> str:
    """Return the name of the configuration field with the pruned heads of a head mask."""
    return mask.replace("head_mask", "pruned_heads")


def importance_of_heads(
    model: Model,
    batches: Iterable[Batch],
    loss: Callable[[Batch, dict[str, Tensor]], tuple[Tensor, Tensor | float]],
    *,
    normalise: bool = True,
) -> dict[str, Tensor]:
    """Return the importance of each head for the loss.

    Importance is the mean absolute gradient of the loss with respect to the head's mask (Michel et
    al. 2019, section 4.1, equation 2).

    Args:
        model: runs in evaluation mode.
        batches: inputs of ``loss``. The mean is over batches. With one example per batch it is over
            examples, as in the paper; in larger batches gradients of opposite sign cancel.
        loss: takes a batch and the masks of ``Model.head_masks``, which require gradients. Returns
            the loss as (sum, count), or several sums and counts, whose means are added.
        normalise: whether to divide by the norm of each block, as the paper does.

    Returns:
        For each mask, importance of shape (L, H), at least 0; 0 for pruned heads.

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
        # A batch without labels has sum and count 0 and gets zero gradients.
        mean = (total / torch.as_tensor(count).clamp(min=1e-9)).sum()
        gradients = torch.autograd.grad(mean, list(masks.values()))
        for name, gradient in zip(masks, gradients, strict=True):
            importance[name] += gradient.abs()
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
    """Like `importance_of_heads`, for a model with one mask, which ``loss`` takes.

    Returns:
        Shape (L, H).
    """
    importance = importance_of_heads(
        model, batches, lambda batch, masks: loss(batch, masks["head_mask"]), normalise=normalise
    )
    return importance["head_mask"]


def choose_heads(
    importance: Mapping[str, Tensor], number: int, config: object
) -> dict[str, dict[int, list[int]]]:
    """Choose the least important heads to prune, but never the last head of an attention.

    Args:
        importance: importance for each mask, of shape (L, H).
        number: number of heads to choose.
        config: configuration of the model; its pruned heads are not chosen again.

    Returns:
        For each mask, the indices of the heads by block index; see ``prune_heads``.

    Raises:
        UserError: the model has fewer heads to spare.
    """
    kept: dict[tuple[str, int], list[int]] = {}
    ranked: list[tuple[float, str, int, int]] = []
    for mask, rows in importance.items():
        for block, row in enumerate(rows.tolist()):
            kept[mask, block] = remaining(len(row), getattr(config, pruned_field(mask)), block)
            ranked += [(row[head], mask, block, head) for head in kept[mask, block]]
    spare = sum(len(heads) - 1 for heads in kept.values())
    if not 0 <= number <= spare:
        raise UserError(f"cannot prune {number} heads; the model has {spare} to spare")
    chosen: dict[str, dict[int, list[int]]] = {mask: {} for mask in importance}
    for _, mask, block, head in sorted(ranked, key=lambda candidate: candidate[0]):
        if number and len(kept[mask, block]) > 1:
            kept[mask, block].remove(head)
            chosen[mask].setdefault(block, []).append(head)
            number -= 1
    return {
        mask: {block: sorted(blocks[block]) for block in sorted(blocks)}
        for mask, blocks in chosen.items()
    }


def least_important(importance: Tensor, number: int, config: EncoderConfig) -> dict[int, list[int]]:
    """Like `choose_heads`, for a model with one mask. ``importance`` has shape (L, H)."""
    return choose_heads({"head_mask": importance}, number, config)["head_mask"]

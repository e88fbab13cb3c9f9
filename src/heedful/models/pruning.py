"""Which attention heads matter, and models without those that do not (Michel et al. 2019).

Shapes: L blocks, H heads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from heedful.errors import UserError, listed
from heedful.layers.block import Attention
from heedful.models.bert.config import BertConfig
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
    kept = [place for place, head in enumerate(inner.heads) if head not in gone]
    rows = torch.arange(inner.query.out_features, device=inner.query.weight.device)
    rows = rows.view(len(inner.heads), -1)[kept].flatten()
    inner.heads = tuple(inner.heads[place] for place in kept)
    for linear in (inner.query, inner.key, inner.value):
        linear.weight = _part(linear.weight, 0, rows)
        linear.bias = _part(linear.bias, 0, rows)
        linear.out_features = len(rows)
    outer.weight = _part(outer.weight, 1, rows)
    outer.in_features = len(rows)


def _part(parameter: Tensor, dimension: int, rows: Tensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().index_select(dimension, rows), parameter.requires_grad)


def head_importance(
    model: Model,
    batches: Iterable[Batch],
    loss: Callable[[Batch, Tensor], tuple[Tensor, Tensor | float]],
    *,
    normalise: bool = True,
) -> Tensor:
    """Return how much the loss depends on each head.

    That is the mean of its absolute derivative by the head's mask (Michel et al. 2019, section
    4.1, equation 2).

    Args:
        model: a BERT, with a head or without; it is in evaluation mode meanwhile.
        batches: what ``loss`` understands. The mean is over batches: over examples, as in the
            paper, if each is a batch of its own; in larger ones those that pull both ways cancel.
        loss: for a batch and a ``head_mask`` of shape (L, H) that needs a gradient, the loss as
            (sum, count), or several sums and counts, whose means are added.
        normalise: whether to divide by the norm of each block, as the paper does.

    Returns:
        Shape (L, H), at least 0; 0 for heads that were pruned.

    Raises:
        UserError: there is no batch.
    """
    config: BertConfig = model.config
    device = next(model.parameters()).device
    importance = torch.zeros(config.num_hidden_layers, config.num_attention_heads, device=device)
    counted, trained = 0, model.training
    model.eval()
    for batch in batches:
        mask = torch.ones_like(importance, requires_grad=True)
        total, count = loss(batch, mask)
        # A batch with nothing to learn, where both are 0, has no slope.
        mean = (total / torch.as_tensor(count).clamp(min=1e-9)).sum()
        importance += torch.autograd.grad(mean, mask)[0].abs()
        counted += 1
    model.train(trained)
    if not counted:
        raise UserError("there is nothing to measure the importance of heads on")
    importance /= counted
    if normalise:
        importance = importance / importance.norm(dim=1, keepdim=True).clamp(min=1e-20)
    return importance


def least_important(importance: Tensor, number: int, config: BertConfig) -> dict[int, list[int]]:
    """Choose heads to prune: those that matter least, but never the last of a block.

    Args:
        importance: shape (L, H).
        number: how many heads to choose.
        config: of the model; heads that it says are pruned are not chosen again.

    Returns:
        The numbers of the heads, by the number of the block; see ``prune_heads``.

    Raises:
        UserError: there are not so many heads to spare.
    """
    blocks, heads = importance.shape
    left = {n: set(range(heads)) - set(config.pruned_heads.get(n, ())) for n in range(blocks)}
    spare = sum(len(there) - 1 for there in left.values())
    if not 0 <= number <= spare:
        raise UserError(f"cannot prune {number} heads; the model has {spare} to spare")
    chosen: dict[int, list[int]] = {}
    for place in importance.flatten().argsort(stable=True).tolist():
        block, head = divmod(place, heads)
        if number and head in left[block] and len(left[block]) > 1:
            left[block].remove(head)
            chosen.setdefault(block, []).append(head)
            number -= 1
    return {block: sorted(chosen[block]) for block in sorted(chosen)}

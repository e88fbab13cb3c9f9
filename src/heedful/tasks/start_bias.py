"""The bias with which a fresh classifier starts.

A fresh classifier predicts about the label shares of the training data. From a bias of 0, its high
learning rate may move all items towards a very common label at once, so that the model never learns
the others.
"""

import math
from collections.abc import Sequence

import torch

from heedful.models.model import Model
from heedful.models.with_head import ModelWithHead


def bias_of_counts(
    counts: Sequence[int],
    weights: Sequence[float] | None = None,
    num_items: int | None = None,
) -> tuple[float, ...]:
    """Return the logits, the same for all items, with the lowest loss on the training data.

    A label that no item has counts as that of one item, and one of all items as missing once.

    Args:
        counts: number of training items with each label.
        weights: weight of the items with each label in the loss.
        num_items: number of training items if an item may have any number of labels, else None.
    """
    at_least_one = [max(1, count) for count in counts]
    weighed = [w * n for w, n in zip(weights or [1.0] * len(counts), at_least_one, strict=True)]
    if num_items is not None:
        missing = [max(1, num_items - count) for count in at_least_one]
        return tuple(math.log(w / m) for w, m in zip(weighed, missing, strict=True))
    mean = math.fsum(weighed) / len(weighed)
    return tuple(math.log(one / mean) for one in weighed)


def set_fresh_bias(model: Model, values: Sequence[float]) -> None:
    """Set the bias of a fresh classifier; one that was loaded from a folder keeps its own.

    Args:
        model: a model with a classifier as its head.
        values: value for each label.
    """
    assert isinstance(model, ModelWithHead)
    bias = model.head.bias
    if any(bias is parameter for parameter in model.fresh_head_parameters()):
        with torch.no_grad():
            bias.copy_(torch.tensor(values))

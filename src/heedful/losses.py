"""Losses as (sum, count), so that sums over batches, steps and ranks are exact.

The mean is ``sum / count``; it equals the mean reduction of torch's function of the same name.
Half-precision scores are summed in float32.

Shapes: B batch, C classes or outputs, D width of a vector, ... any dimensions.
"""

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.errors import UserError, check_known
from heedful.host import waits

IGNORED = -100
"""The label that does not count, as in torch."""

Reduction = Literal["mean", "sum"]
"""How to combine the losses of all labels."""

_CACHED = 2**18
"""Logits that are worked on at once: they fit into a core's own cache."""


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Cross entropy of one right class.

    Args:
        logits: shape (..., C).
        labels: classes 0 to C - 1, or -100 for a label that does not count. Shape (...).
        class_weights: the weight of each class. Shape (C,).
        label_smoothing: the probability that is divided equally among all classes, the right one
            included (Szegedy et al. 2016, section 7). From 0 to 1; 0 with weights.

    Returns:
        The sum over the labels, and their number; with weights, the sum of their weights.

    Raises:
        UserError: the smoothing is out of range, or combined with weights.
    """
    if not 0 <= label_smoothing <= 1:
        raise UserError(f"label_smoothing is {label_smoothing}; it must be from 0 to 1")
    if label_smoothing and class_weights is not None:
        raise UserError("label_smoothing cannot be combined with class_weights; give one of them")
    scores, labels = logits.flatten(0, -2), labels.flatten().long()  # (N, C), (N,)
    counted = labels != IGNORED
    if class_weights is None:
        total: Tensor = _CrossEntropy.apply(scores, labels, label_smoothing)  # type: ignore[no-untyped-call]
        return total, counted.sum()
    scores = _wide(scores)
    weights = class_weights.to(scores)
    total = F.cross_entropy(scores, labels, weights, ignore_index=IGNORED, reduction="sum")
    return total, (weights[labels.clamp(min=0)] * counted).sum()


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy that computes its gradient too, a few rows at a time that stay in the cache.

    With p the softmax, y the right class and e the smoothing, the loss of a row is
    -(1 - e) log p_y - e/C sum(log p), and its gradient p - e/C, minus 1 - e at y. The gradient is
    the only tensor as large as the logits that is kept.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        classes = logits.shape[1]
        rows = len(logits) if waits(logits.device) else _CACHED // classes
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        total = _wide(logits.new_zeros(()))
        for start in range(0, len(logits), max(rows, 1)):
            part = slice(start, start + max(rows, 1))
            counted = (labels[part] != IGNORED)[:, None]
            right = labels[part, None].clamp(min=0)
            log_probabilities = _wide(logits[part]).log_softmax(-1)
            losses = (smoothing - 1) * log_probabilities.gather(1, right)
            if smoothing:
                losses -= smoothing / classes * log_probabilities.sum(1, keepdim=True)
            total += losses.masked_fill(~counted, 0.0).sum()
            if gradient is not None:
                slopes = log_probabilities.exp_().sub_(smoothing / classes)
                slopes.scatter_add_(1, right, slopes.new_full(right.shape, smoothing - 1))
                gradient[part] = slopes.masked_fill_(~counted, 0.0)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad.to(gradient.dtype), None, None


def mse(predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Squared error.

    Args:
        predictions: any shape.
        targets: the same shape.

    Returns:
        The sum over the numbers, and how many there are.
    """
    predictions = _wide(predictions)
    total = F.mse_loss(predictions, targets.to(predictions), reduction="sum")
    return total, _number_of(targets)


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | None = None,
    positive_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross entropy of independent yes-or-no answers.

    Args:
        logits: shape (..., C).
        labels: 0, 1, or a probability between. Shape (..., C).
        class_weights: the weight of each output. Shape (C,).
        positive_weights: the weight of a yes; that of a no is 1. Shape (C,).

    Returns:
        The sum over the outputs, and how many there are (without weights, as in torch).
    """
    logits = _wide(logits)
    total = F.binary_cross_entropy_with_logits(
        logits,
        labels.to(logits),
        None if class_weights is None else class_weights.to(logits),
        pos_weight=None if positive_weights is None else positive_weights.to(logits),
        reduction="sum",
    )
    return total, _number_of(labels)


def partners(
    first: Tensor, second: Tensor, *, shared: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Cross entropy of each text's partner among the partners of its batch (Henderson et al. 2017).

    The mean of both directions.

    Args:
        first: vectors of length 1, one for each pair. Shape (B, D).
        second: those of their partners. Shape (B, D).
        shared: whether two pairs share a text, on whichever sides, so that neither is a wrong
            answer to the other; the diagonal is ignored. Shape (B, B), bool.
        scale: factor of the cosines.

    Returns:
        The sum over the pairs, and how many there are.
    """
    right = torch.arange(len(first), device=first.device)
    others = right[:, None] != right
    scores = (scale * _wide(first) @ _wide(second).T).masked_fill(shared & others, -math.inf)
    forth, count = cross_entropy(scores, right)
    back, _ = cross_entropy(scores.T, right)
    return (forth + back) / 2, count


def soft_cross_entropy(
    logits: Tensor, teacher: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Kullback-Leibler divergence from a teacher's probabilities (Hinton et al. 2015, section 2).

    Both logits are divided by the temperature, and the divergence multiplied by its square, so that
    the size of the gradient does not depend on it.

    Args:
        logits: the student's. Shape (N, C).
        teacher: the teacher's; where one is minus infinity, the student's is, too. Shape (N, C).
        temperature: above 0.

    Returns:
        The sum over the rows, and how many there are.
    """
    wanted = (_wide(teacher) / temperature).log_softmax(-1)
    told = (_wide(logits) / temperature).log_softmax(-1)
    excess = (wanted - told).masked_fill(wanted.isneginf(), 0.0)
    total = (wanted.exp() * excess).sum() * temperature**2
    return total, torch.full((), len(logits), device=logits.device)


def soft_binary_cross_entropy(
    logits: Tensor, teacher: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Do the same for independent yes-or-no answers.

    Args:
        logits: the student's. Shape (N, C).
        teacher: the teacher's. Shape (N, C).
        temperature: above 0.

    Returns:
        The sum over the outputs, and how many there are.
    """
    wanted, told = _wide(teacher) / temperature, _wide(logits) / temperature
    yes = wanted.sigmoid() * (F.logsigmoid(wanted) - F.logsigmoid(told))
    no = (-wanted).sigmoid() * (F.logsigmoid(-wanted) - F.logsigmoid(-told))
    return (yes + no).sum() * temperature**2, _number_of(logits)


def cosine_distance(vectors: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """1 - the cosine of each vector and the teacher's (Sanh et al. 2019, section 3).

    Args:
        vectors: the student's. Shape (N, D).
        teacher: the teacher's. Shape (N, D).

    Returns:
        The sum over the vectors, and how many there are.
    """
    cosines = F.cosine_similarity(_wide(vectors), _wide(teacher), dim=-1)
    return (1 - cosines).sum(), torch.full((), len(vectors), device=vectors.device)


def reduced(total: Tensor, count: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean or the sum of losses; the mean of none is NaN, and changes no weight.

    Args:
        total: their sum.
        count: how many there are.
        reduction: ``mean`` or ``sum``.

    Raises:
        UserError: the reduction is neither.
    """
    check_known("reduction", reduction, get_args(Reduction))
    if reduction == "sum":
        return total
    # The mean of none is no number, as in the reference; its gradient is 0, not 0 times infinity.
    some = count != 0
    return torch.where(some, total / count.where(some, 1), math.nan)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _number_of(targets: Tensor) -> Tensor:
    return torch.full((), targets.numel(), device=targets.device)

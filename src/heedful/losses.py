"""Losses as (sum, count), so that totals over batches, steps and ranks are exact.

The mean is ``sum / count``. It equals the mean reduction of torch's function of the same name.
Half-precision scores are summed in float32.

Shapes: B batch, C classes or outputs, D width of a vector, ... any dimensions.
"""

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.derivatives import only_once
from heedful.device_transfer import blocks_host
from heedful.errors import UserError, check_known

IGNORED = -100
"""The label that is ignored, as in torch."""

Reduction = Literal["mean", "sum"]
"""How to combine the losses of all labels."""

_CACHED = 2**18
"""Logits in one chunk: they fit into the cache of a core."""
_TWICE = 2**20
"""Maximum number of logits whose loss has second derivatives: more would take too much memory."""


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Cross entropy with one correct class.

    Args:
        logits: shape (..., C).
        labels: classes 0 to C - 1, or -100 for an ignored label. Shape (...).
        class_weights: the weight of each class. Shape (C,).
        label_smoothing: the probability mass spread evenly over all classes, the correct one
            included (Szegedy et al. 2016, section 7). From 0 to 1; must be 0 with weights.

    Returns:
        The sum over the labels and their number; with weights, the sum of their weights.

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
    scores = _upcast(scores)
    weights = class_weights.to(scores)
    total = F.cross_entropy(scores, labels, weights, ignore_index=IGNORED, reduction="sum")
    return total, (weights[labels.clamp(min=0)] * counted).sum()


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy that computes loss and gradient together, in chunks of rows that fit the cache.

    With p the softmax, y the correct class and e the smoothing, the loss of a row is
    -(1 - e) log p_y - e/C sum(log p). Its gradient is p - e/C, minus 1 - e at y. The only saved
    tensor as large as the logits is the gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        classes = logits.shape[1]
        rows = len(logits) if blocks_host(logits.device) else _CACHED // classes
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        total = _upcast(logits.new_zeros(()))
        for start in range(0, len(logits), max(rows, 1)):
            chunk = slice(start, start + max(rows, 1))
            is_counted = (labels[chunk] != IGNORED)[:, None]
            targets = labels[chunk, None].clamp(min=0)
            log_probabilities = _upcast(logits[chunk]).log_softmax(-1)
            losses = (smoothing - 1) * log_probabilities.gather(1, targets)
            if smoothing:
                losses -= smoothing / classes * log_probabilities.sum(1, keepdim=True)
            total += losses.masked_fill(~is_counted, 0.0).sum()
            if gradient is not None:
                gradients = log_probabilities.exp_().sub_(smoothing / classes)
                gradients.scatter_add_(1, targets, gradients.new_full(targets.shape, smoothing - 1))
                gradient[chunk] = gradients.masked_fill_(~is_counted, 0.0)
        ctx.smoothing = smoothing
        # The labels may change before the backward pass: only second derivatives need them then.
        more = (logits, labels.clone()) if logits.numel() <= _TWICE else (None, None)
        ctx.save_for_backward(gradient, *more)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        gradient, logits, labels = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gradient * grad.to(gradient.dtype), None, None
        if logits is None:
            return only_once(gradient * grad.to(gradient.dtype))[0], None, None
        classes, smoothing = logits.shape[1], ctx.smoothing
        probabilities = _upcast(logits).softmax(-1)
        targets = F.one_hot(labels.clamp(min=0), classes).to(probabilities.dtype)
        differences = probabilities - (1 - smoothing) * targets - smoothing / classes
        is_ignored = (labels == IGNORED)[:, None]
        return (differences.masked_fill(is_ignored, 0.0) * grad).to(logits.dtype), None, None


def mse(predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Squared error.

    Args:
        predictions: any shape.
        targets: the same shape.

    Returns:
        The sum over the values and their number.
    """
    predictions = _upcast(predictions)
    total = F.mse_loss(predictions, targets.to(predictions), reduction="sum")
    return total, _count(targets)


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | None = None,
    positive_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross entropy of independent binary outputs.

    Args:
        logits: shape (..., C).
        labels: 0, 1, or a probability in between. Shape (..., C).
        class_weights: the weight of each output. Shape (C,).
        positive_weights: the weight of positive labels; negative ones have weight 1. Shape (C,).

    Returns:
        The sum over the outputs and their number (without weights, as in torch).
    """
    logits = _upcast(logits)
    total = F.binary_cross_entropy_with_logits(
        logits,
        labels.to(logits),
        None if class_weights is None else class_weights.to(logits),
        pos_weight=None if positive_weights is None else positive_weights.to(logits),
        reduction="sum",
    )
    return total, _count(labels)


def in_batch_contrastive(
    first: Tensor, second: Tensor, *, shared: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Contrastive loss with in-batch negatives (Henderson et al. 2017).

    It is the cross entropy of each text's partner among all partners of the batch, averaged over
    both directions.

    Args:
        first: unit vectors of the first texts of the pairs. Shape (B, D).
        second: unit vectors of their partners. Shape (B, D).
        shared: whether two pairs share a text, on whichever sides, so that they are not negatives
            of each other; the diagonal is ignored. Shape (B, B), bool.
        scale: factor of the cosine similarities (inverse temperature).

    Returns:
        The sum over the pairs and their number.
    """
    targets = torch.arange(len(first), device=first.device)
    off_diagonal = targets[:, None] != targets
    scores = (scale * _upcast(first) @ _upcast(second).T).masked_fill(
        shared & off_diagonal, -math.inf
    )
    forward_loss, count = cross_entropy(scores, targets)
    backward_loss, _ = cross_entropy(scores.T, targets)
    return (forward_loss + backward_loss) / 2, count


def soft_cross_entropy(
    logits: Tensor, teacher: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Kullback-Leibler divergence from a teacher's probabilities (Hinton et al. 2015, section 2).

    Both logits are divided by the temperature. The divergence is multiplied by its square, so that
    the size of the gradient does not depend on the temperature.

    Args:
        logits: logits of the student. Shape (N, C).
        teacher: logits of the teacher; where one is -inf, the student's is too. Shape (N, C).
        temperature: above 0.

    Returns:
        The sum over the rows and their number.
    """
    teacher_log = (_upcast(teacher) / temperature).log_softmax(-1)
    student_log = (_upcast(logits) / temperature).log_softmax(-1)
    difference = (teacher_log - student_log).masked_fill(teacher_log.isneginf(), 0.0)
    total = (teacher_log.exp() * difference).sum() * temperature**2
    return total, torch.full((), len(logits), device=logits.device)


def soft_binary_cross_entropy(
    logits: Tensor, teacher: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Kullback-Leibler divergence of independent binary outputs; see `soft_cross_entropy`.

    Args:
        logits: logits of the student. Shape (N, C).
        teacher: logits of the teacher. Shape (N, C).
        temperature: above 0.

    Returns:
        The sum over the outputs and their number.
    """
    target, student = _upcast(teacher) / temperature, _upcast(logits) / temperature
    positive = target.sigmoid() * (F.logsigmoid(target) - F.logsigmoid(student))
    negative = (-target).sigmoid() * (F.logsigmoid(-target) - F.logsigmoid(-student))
    return (positive + negative).sum() * temperature**2, _count(logits)


def cosine_distance(vectors: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine distance, 1 - cos, to the teacher's vectors (Sanh et al. 2019, section 3).

    Args:
        vectors: vectors of the student. Shape (N, D).
        teacher: vectors of the teacher. Shape (N, D).

    Returns:
        The sum over the vectors and their number.
    """
    cosines = F.cosine_similarity(_upcast(vectors), _upcast(teacher), dim=-1)
    return (1 - cosines).sum(), torch.full((), len(vectors), device=vectors.device)


def reduced(total: Tensor, count: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean or the sum of losses; the mean of no losses is NaN with a gradient of 0.

    Args:
        total: sum of the losses.
        count: number of losses.
        reduction: ``mean`` or ``sum``.

    Raises:
        UserError: the reduction is neither.
    """
    check_known("reduction", reduction, get_args(Reduction))
    if reduction == "sum":
        return total
    # The mean of no losses is NaN, as in the reference. Its gradient is 0, not 0 times infinity.
    nonempty = count != 0
    return torch.where(nonempty, total / count.where(nonempty, 1), math.nan)


def _upcast(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _count(targets: Tensor) -> Tensor:
    return torch.full((), targets.numel(), device=targets.device)

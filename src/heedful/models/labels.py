"""Check labels against logits and compute their losses.

Shapes: B batch, S length, C classes or outputs, V vocabulary, N scored positions, ... any
dimensions.
"""

import math

import torch
from torch import Tensor

from heedful import losses
from heedful.device_transfer import get_host_copy, nonzero_indices
from heedful.errors import UserError


def class_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum and count of the cross entropy for single-class labels.

    Args:
        logits: shape (..., C).
        labels: classes 0 to C - 1, or -100 for an ignored label. Shape (...), or see ``in_shape``.

    Raises:
        UserError: the labels do not match the logits.
    """
    shape = tuple(logits.shape[:-1])
    labels = in_shape(labels, shape)
    check_classes(labels, shape, logits.shape[-1])
    return losses.cross_entropy(logits, labels)


def in_shape(labels: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return labels in a shape if they are flat, or end in a dimension of 1; else as they are."""
    if labels.shape != shape and labels.shape in ((math.prod(shape),), (*shape, 1)):
        return labels.reshape(shape)
    return labels


def check_classes(labels: Tensor, shape: tuple[int, ...], classes: int) -> None:
    """Check that labels are class indices.

    Args:
        labels: labels to check.
        shape: required shape.
        classes: C.

    Raises:
        UserError: the shape, the dtype or a value is wrong. Values are checked only on the CPU.
    """
    if labels.shape != shape:
        raise UserError(f"labels have shape {tuple(labels.shape)}; they must have {shape}")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise UserError(f"labels have type {labels.dtype}; classes are integers")
    # Checking values on another device would block the host.
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = labels[((labels < 0) & (labels != losses.IGNORED)) | (labels >= classes)]
        if len(wrong):
            raise UserError(
                f"labels hold {int(wrong[0])}; the classes are 0 to {classes - 1}, "
                f"and {losses.IGNORED} leaves one out"
            )


def classification_loss(
    logits: Tensor, labels: Tensor, problem_type: str | None
) -> tuple[Tensor, Tensor]:
    """Return the sum and count of the loss of a text classifier.

    Args:
        logits: shape (B, C).
        labels: see ``BertForSequenceClassification``.
        problem_type: one of ``config.PROBLEM_TYPES``. None decides as the reference does: one
            output means regression; otherwise integer labels mean one class per text, and other
            labels mean multi-label classification.

    Raises:
        UserError: the labels do not match the logits.
    """
    if logits.ndim != 2:
        raise UserError(
            f"the logits have shape {tuple(logits.shape)}; those of texts have (batch, classes): "
            "a module in place of this classifier reads all tokens, and has to select the first"
        )
    batch, classes = logits.shape
    if problem_type is None:
        if classes == 1:
            problem_type = "regression"
        elif labels.dtype in (torch.int64, torch.int32):
            problem_type = "single_label_classification"
        else:
            problem_type = "multi_label_classification"
    shape: tuple[int, ...] = (batch, classes)
    if problem_type == "single_label_classification" or classes == 1:
        labels, shape = labels.squeeze(-1) if labels.ndim == 2 else labels, (batch,)
    if labels.shape != shape:
        raise UserError(f"labels have shape {tuple(labels.shape)}; for {problem_type}, {shape}")

    if problem_type == "single_label_classification":
        return class_loss(logits, labels)
    logits = logits.reshape(shape)
    if problem_type == "regression":
        return losses.mse(logits, labels)
    return losses.binary_cross_entropy(logits, labels)


def labelled_positions(
    labels: Tensor, positions: Tensor | None, shape: tuple[int, ...], vocab_size: int
) -> Tensor:
    """Return the labelled positions in the flattened batch. Shape (N,).

    Args:
        labels: token ids, or -100 for no label. Shape (B, S), or see ``in_shape``.
        positions: positions that the caller asked to score; must be None with labels.
        shape: (B, S), the required shape of the labels.
        vocab_size: V.

    Raises:
        UserError: the labels are invalid, or ``positions`` is given, too.
    """
    if positions is not None:
        raise UserError(
            "give labels or positions, not both: each label is scored at its own position"
        )
    labels = in_shape(labels, shape)
    check_classes(labels, shape, vocab_size)
    return nonzero_indices(get_host_copy(labels) != losses.IGNORED, labels.device)

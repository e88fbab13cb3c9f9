"""Labels checked against what a head gives, and their losses.

Shapes: B batch, S length, C classes or outputs, V vocabulary, N positions that are scored, ... any
dimensions.
"""

import torch
from torch import Tensor

from heedful import losses
from heedful.errors import UserError
from heedful.host import on_host, where_true


def class_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum and the count of the cross entropy of one right class each.

    Args:
        logits: shape (..., C).
        labels: classes 0 to C - 1, or -100 to leave one out. Shape (...).

    Raises:
        UserError: the labels do not fit the logits.
    """
    check_classes(labels, tuple(logits.shape[:-1]), logits.shape[-1])
    return losses.cross_entropy(logits, labels)


def check_classes(labels: Tensor, shape: tuple[int, ...], classes: int) -> None:
    """Check that labels are classes.

    Args:
        labels: what is checked.
        shape: the shape that they must have.
        classes: C.

    Raises:
        UserError: the shape, the type, or (where looking costs nothing) a value is wrong.
    """
    if labels.shape != shape:
        raise UserError(f"labels have shape {tuple(labels.shape)}; they must have {shape}")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise UserError(f"labels have type {labels.dtype}; classes are integers")
    # Elsewhere than on a CPU the values could be seen only by waiting for the device.
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
    """Return the sum and the count of the loss that fits the labels of whole texts.

    Args:
        logits: shape (B, C).
        labels: see ``BertForSequenceClassification``.
        problem_type: one of ``config.PROBLEM_TYPES``. None decides as the reference does: one
            output is regression; else integer labels are classes, and others yes or no for each.

    Raises:
        UserError: the labels do not fit the logits.
    """
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
    """Return the positions that have a label, in the batch laid out as one row. Shape (N,).

    Args:
        labels: token ids, or -100 where there is none. Shape (B, S).
        positions: those that the caller asked to score; only None goes with labels.
        shape: (B, S), which the labels must have.
        vocab_size: V.

    Raises:
        UserError: the labels do not fit, or positions are given too.
    """
    if positions is not None:
        raise UserError("give labels or positions, not both: labels are scored where they stand")
    check_classes(labels, shape, vocab_size)
    return where_true(on_host(labels) != losses.IGNORED, labels.device)

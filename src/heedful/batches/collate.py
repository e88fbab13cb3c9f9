"""Collate examples into padded tensors.

Shapes: B examples of the batch, T longest input, S longest target text, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches.examples import Example
from heedful.batches.masking import IGNORED
from heedful.device_transfer import copy_to_device


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Examples as tensors, for ``model(**batch.inputs)``."""

    inputs: dict[str, Tensor]
    """By the model's argument names. ``input_ids`` (B, T) int64. ``attention_mask`` (B, T) bool,
    True = a token, if there is padding. ``token_type_ids`` (B, T) int64, 1 from the second text on,
    if there is a second text or the last token has its own type. For images, ``pixel_values``
    (B, channels, rows, columns) float32."""
    targets: dict[str, Tensor] = field(default_factory=dict)
    """Targets of training or scoring, under names that the task chooses; may be empty."""
    num_tokens: int
    """Number of tokens without padding, target tokens included."""
    num_positions: int
    """Number of tokens and padding."""
    replicas: int = 1
    """Number of training processes that compute this same batch."""

    @property
    def num_examples(self) -> int:
        """Number of examples, B."""
        return len(next(iter(self.inputs.values())))

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device. The copy does not block the host."""
        return Batch(
            inputs={name: copy_to_device(tensor, device) for name, tensor in self.inputs.items()},
            targets={name: copy_to_device(tensor, device) for name, tensor in self.targets.items()},
            num_tokens=self.num_tokens,
            num_positions=self.num_positions,
            replicas=self.replicas,
        )


def collate(
    examples: Sequence[Example],
    *,
    pad_id: int,
    closing_type: int | None = None,
    targets: dict[str, Tensor] | None = None,
) -> Batch:
    """Pad examples to the length of the longest.

    Args:
        examples: at least one.
        pad_id: token id of the padding.
        closing_type: see `PairLayout`.
        targets: the training targets of the examples.
    """
    ids, mask = _padded([example.ids for example in examples], pad_id)  # (B, T)
    inputs = {"input_ids": torch.from_numpy(ids)}
    if not mask.all():
        inputs["attention_mask"] = torch.from_numpy(mask)
    if closing_type is not None or any(example.split is not None for example in examples):
        inputs["token_type_ids"] = _token_types(examples, mask, closing_type)
    return Batch(
        inputs=inputs,
        targets=targets or {},
        num_tokens=int(mask.sum()),
        num_positions=mask.size,
    )


def class_labels(examples: Sequence[Example]) -> Tensor:
    """Return the single class label of each example. Shape (B,), int64."""
    return torch.tensor([int(label) for (label,) in _labels(examples)])


def regression_targets(examples: Sequence[Example]) -> Tensor:
    """Return the single numeric label of each example. Shape (B,), float32."""
    return torch.tensor([label for (label,) in _labels(examples)], dtype=torch.float32)


def multi_hot(examples: Sequence[Example], num_classes: int) -> Tensor:
    """Return multi-hot labels: 1 where an example has a class, else 0. Shape (B, C), float32."""
    rows = _labels(examples)
    hot = torch.zeros(len(rows), num_classes)
    row_indices = [index for index, row in enumerate(rows) for _ in row]
    hot[row_indices, [int(label) for row in rows for label in row]] = 1.0
    return hot


def token_labels(examples: Sequence[Example]) -> Tensor:
    """Return token labels or target token ids, padded with -100. Shape (B, T or S).

    If no example has labels, the result has one column.
    """
    return torch.from_numpy(_padded(_labels(examples), IGNORED)[0])


def spans(examples: Sequence[Example]) -> Tensor:
    """Return the first and last token of each example's span. Shape (B, 2), int64."""
    return torch.tensor(_labels(examples), dtype=torch.int64)


def _labels(examples: Sequence[Example]) -> list[tuple[float, ...]]:
    return [example.labels for example in examples]


def _padded(
    rows: Sequence[NDArray[np.int32] | tuple[float, ...]], pad_value: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return padded rows and their mask, True = not padding. Shapes: (B, T)."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(max(lengths.max(), 1)) < lengths[:, None]
    padded = np.full(mask.shape, pad_value, dtype=np.int64)
    padded[mask] = np.concatenate(rows)
    return padded, mask


def _token_types(
    examples: Sequence[Example], mask: NDArray[np.bool_], closing_type: int | None
) -> Tensor:
    width = mask.shape[1]
    splits = [width if example.split is None else example.split for example in examples]
    second = mask & (np.arange(width) >= np.array(splits)[:, None])  # (B, T)
    types = second.astype(np.int64)
    if closing_type is not None:
        types[np.arange(len(mask)), mask.sum(1) - 1] = closing_type
    return torch.from_numpy(types)

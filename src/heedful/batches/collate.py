"""Examples to padded tensors.

Shapes: B examples of the batch, T the longest length of what is read, S that of what is written,
C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches.examples import Example

_IGNORED = -100
"""The label of padding, which no loss counts."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Examples as tensors: ``model(**batch.inputs)`` computes them."""

    inputs: dict[str, Tensor]
    """By the names of the model's arguments. ``input_ids`` (B, T) int64; ``attention_mask``
    (B, T) bool, True = a token, where something is padded; ``token_type_ids`` (B, T) int64, 1 from
    the second text on, where there is one."""
    targets: dict[str, Tensor] = field(default_factory=dict)
    """What is to be learnt or scored, by names of the task's choice; empty where nothing is."""
    num_tokens: int
    """Tokens, padding not counted; with those of a text to write."""
    num_positions: int
    """Tokens and padding."""

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.inputs["input_ids"])

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        return Batch(
            inputs={name: tensor.to(device) for name, tensor in self.inputs.items()},
            targets={name: tensor.to(device) for name, tensor in self.targets.items()},
            num_tokens=self.num_tokens,
            num_positions=self.num_positions,
        )


def collate(
    examples: Sequence[Example], *, pad_id: int, targets: dict[str, Tensor] | None = None
) -> Batch:
    """Pad examples to the longest of them.

    Args:
        examples: at least one.
        pad_id: token id of the padding.
        targets: what is to be learnt from them.
    """
    ids, real = _padded([example.ids for example in examples], pad_id)  # (B, T)
    inputs = {"input_ids": torch.from_numpy(ids)}
    if not real.all():
        inputs["attention_mask"] = torch.from_numpy(real)
    if any(example.split is not None for example in examples):
        inputs["token_type_ids"] = _token_types(examples, real)
    return Batch(
        inputs=inputs,
        targets=targets or {},
        num_tokens=int(real.sum()),
        num_positions=real.size,
    )


def class_labels(examples: Sequence[Example]) -> Tensor:
    """Return the one class of each example. Shape (B,), int64."""
    return torch.tensor([int(label) for (label,) in _labels(examples)])


def values(examples: Sequence[Example]) -> Tensor:
    """Return the one number of each example. Shape (B,), float32."""
    return torch.tensor([label for (label,) in _labels(examples)], dtype=torch.float32)


def multi_hot(examples: Sequence[Example], num_classes: int) -> Tensor:
    """Return 1 where an example has a class, else 0. Shape (B, C), float32."""
    rows = _labels(examples)
    hot = torch.zeros(len(rows), num_classes)
    owners = [number for number, row in enumerate(rows) for _ in row]
    hot[owners, [int(label) for row in rows for label in row]] = 1.0
    return hot


def token_labels(examples: Sequence[Example]) -> Tensor:
    """Return a class for each token, or the tokens to write, -100 after them. (B, T or S).

    Where no example has any, there is one column.
    """
    return torch.from_numpy(_padded(_labels(examples), _IGNORED)[0])


def spans(examples: Sequence[Example]) -> Tensor:
    """Return the first and the last token of each example's span. Shape (B, 2), int64."""
    return torch.tensor(_labels(examples), dtype=torch.int64)


def _labels(examples: Sequence[Example]) -> list[tuple[float, ...]]:
    return [example.labels for example in examples]


def _padded(
    rows: Sequence[NDArray[np.int32] | tuple[float, ...]], filler: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Fill rows up to the longest; give them and what of them is real. Shape (B, T) each."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(max(lengths.max(), 1)) < lengths[:, None]
    padded = np.full(real.shape, filler, dtype=np.int64)
    padded[real] = np.concatenate(rows)
    return padded, real


def _token_types(examples: Sequence[Example], real: NDArray[np.bool_]) -> Tensor:
    width = real.shape[1]
    splits = [width if example.split is None else example.split for example in examples]
    second = real & (np.arange(width) >= np.array(splits)[:, None])  # (B, T)
    return torch.from_numpy(second.astype(np.int64))

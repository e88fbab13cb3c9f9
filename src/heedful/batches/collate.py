"""Examples to padded tensors.

Shapes: B items of the batch, T its longest length, S that of the texts to write, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches.examples import Example

LabelKind = Literal["class", "classes", "value", "tokens", "target", "span"]

_IGNORED = -100
"""The label of padding, which no loss counts."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """What a model's door takes, on the CPU."""

    input_ids: Tensor
    """(B, T) int64."""
    attention_mask: Tensor | None
    """(B, T) bool, True = a token, not padding; None when nothing is padded. Where several texts
    share a row, (B, T, T), True = of the same text."""
    token_type_ids: Tensor | None
    """(B, T) int64, 1 from the second text on; None when no item has a second text."""
    labels: Tensor | None
    """By the kind of label: class (B,) int64, classes (B, C) float32 of 0 and 1, value (B,)
    float32, tokens (B, T) and target (B, S) int64 with -100 where nothing is to be learnt, span
    (B, 2) int64. With ``positions``, (N,) int64, a token for each of them."""
    tokens: int
    """Tokens, padding not counted; with those of the target."""
    places: int
    """Tokens and padding."""
    position_ids: Tensor | None = None
    """(B, T) int64, where several texts share a row; else None."""
    positions: Tensor | None = None
    """(N,) int64, where tokens are hidden, in the batch laid out as one row of B * T tokens; None
    where none are."""
    prefixes: Sequence[Sequence[int]] | None = None
    """The tokens that what is written for each item must begin with; None where none must."""
    next_sentence: Tensor | None = None
    """(B,) int64, 0 where the second text follows the first, 1 where it does not; None where that
    is not to be learnt."""

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.input_ids)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device)

        return Batch(
            input_ids=self.input_ids.to(device),
            attention_mask=moved(self.attention_mask),
            token_type_ids=moved(self.token_type_ids),
            labels=moved(self.labels),
            tokens=self.tokens,
            places=self.places,
            position_ids=moved(self.position_ids),
            positions=moved(self.positions),
            prefixes=self.prefixes,
            next_sentence=moved(self.next_sentence),
        )


def collate(
    examples: Sequence[Example],
    *,
    pad_id: int,
    labels: LabelKind | None = None,
    num_labels: int = 0,
) -> Batch:
    """Pad examples to the longest of them.

    Args:
        examples: at least one.
        pad_id: token id of the padding.
        labels: what the examples' labels are; None leaves them out.
        num_labels: number of classes, for ``classes``.
    """
    ids, real = _padded([example.ids for example in examples], pad_id)  # (B, T)
    truth = None if labels is None else _labels(examples, labels, num_labels)
    tokens, places = int(real.sum()), real.size
    if truth is not None and labels == "target":
        tokens, places = tokens + int((truth != _IGNORED).sum()), places + truth.numel()
    return Batch(
        input_ids=torch.from_numpy(ids),
        attention_mask=None if real.all() else torch.from_numpy(real),
        token_type_ids=_token_types(examples, real),
        labels=truth,
        tokens=tokens,
        places=places,
    )


def _padded(
    rows: Sequence[NDArray[np.int32] | tuple[float, ...]], filler: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Fill rows up to the longest; give them and what of them is real. Shape (B, T) each."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(real.shape, filler, dtype=np.int64)
    padded[real] = np.concatenate(rows)
    return padded, real


def _token_types(examples: Sequence[Example], real: NDArray[np.bool_]) -> Tensor | None:
    if all(example.split is None for example in examples):
        return None
    width = real.shape[1]
    splits = [width if example.split is None else example.split for example in examples]
    second = real & (np.arange(width) >= np.array(splits)[:, None])  # (B, T)
    return torch.from_numpy(second.astype(np.int64))


def _labels(examples: Sequence[Example], kind: LabelKind, num_labels: int) -> Tensor:
    rows = [example.labels for example in examples]
    if kind == "classes":
        hot = torch.zeros(len(rows), num_labels)  # (B, C)
        items = [item for item, row in enumerate(rows) for _ in row]
        hot[items, [int(label) for row in rows for label in row]] = 1.0
        return hot
    if kind == "span":
        return torch.tensor(rows, dtype=torch.int64)  # (B, 2)
    if kind in ("tokens", "target"):
        return torch.from_numpy(_padded(rows, _IGNORED)[0])  # (B, T) or (B, S)
    values = [value for (value,) in rows]
    return torch.tensor(values, dtype=torch.int64 if kind == "class" else torch.float32)

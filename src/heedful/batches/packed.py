"""Many text examples as a few arrays: compact, and fast to send to another process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.batches.examples import Example

_NO_SPLIT = -1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Packed:
    """N concatenated examples: the ids of example ``r`` are ``ids[ends[r - 1] : ends[r]]``."""

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    """(N,) End of each example in ``ids``."""
    splits: NDArray[np.int32]
    """(N,) See `Example`; -1 for None."""
    labels: NDArray[np.float64]
    label_ends: NDArray[np.int64]
    """(N,) End of each example's labels in ``labels``."""

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Example:
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        split = int(self.splits[index])
        return Example(
            ids=self.ids[_range(self.ends, index, index + 1)],
            split=None if split == _NO_SPLIT else split,
            labels=tuple(self.labels[_range(self.label_ends, index, index + 1)].tolist()),
        )

    def __iter__(self) -> Iterator[Example]:
        return map(self.__getitem__, range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) Token count of each example."""
        return np.diff(self.ends, prepend=0)

    def part(self, start: int, stop: int) -> "Packed":
        """Return examples ``start`` to ``stop - 1`` as copies."""
        first = self.ends[start - 1] if start else 0
        first_label = self.label_ends[start - 1] if start else 0
        return Packed(
            ids=self.ids[_range(self.ends, start, stop)].copy(),
            ends=self.ends[start:stop] - first,
            splits=self.splits[start:stop].copy(),
            labels=self.labels[_range(self.label_ends, start, stop)].copy(),
            label_ends=self.label_ends[start:stop] - first_label,
        )


def _range(ends: NDArray[np.int64], start: int, stop: int) -> slice:
    first = int(ends[start - 1]) if start else 0
    return slice(first, int(ends[stop - 1]) if stop > start else first)


def pack(examples: Sequence[Example]) -> Packed:
    """Pack text examples."""
    splits = [_NO_SPLIT if example.split is None else example.split for example in examples]
    return Packed(
        ids=np.concatenate([np.empty(0, np.int32), *(example.ids for example in examples)]),
        ends=np.cumsum([len(example.ids) for example in examples], dtype=np.int64),
        splits=np.array(splits, np.int32),
        labels=np.array([label for example in examples for label in example.labels], np.float64),
        label_ends=np.cumsum([len(example.labels) for example in examples], dtype=np.int64),
    )


def join(parts: Sequence[Packed]) -> Packed:
    """Concatenate the examples of all parts."""
    lengths = np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)])
    labels = [np.diff(part.label_ends, prepend=0) for part in parts]
    return Packed(
        ids=np.concatenate([np.empty(0, np.int32), *(part.ids for part in parts)]),
        ends=np.cumsum(lengths, dtype=np.int64),
        splits=np.concatenate([np.empty(0, np.int32), *(part.splits for part in parts)]),
        labels=np.concatenate([np.empty(0), *(part.labels for part in parts)]),
        label_ends=np.cumsum(np.concatenate([np.empty(0, np.int64), *labels]), dtype=np.int64),
    )

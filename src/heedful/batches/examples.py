"""What a model is trained on or asked: one encoded text, or pair, with its labels as numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """One encoded text or pair."""

    ids: NDArray[np.int32]
    """(T,) Token ids with the special tokens in their places, unpadded."""
    split: int | None = None
    """Where the second text's tokens start, with the special tokens that close it, for models that
    are told: the token type is 0 before it and 1 from there. None where all types are 0."""
    part: int = 0
    """Which part of its item it is, where an item has several that are compared, such as the two
    texts of a pair: 0 begins an item."""
    labels: tuple[float, ...] = ()
    """A class, several classes, a value, a class for each token, a first and a last token, or the
    tokens of a text to write: the task knows which."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Draw:
    """What random choices about the examples of a batch depend on, and nothing else."""

    seed: int
    epoch: int
    rows: NDArray[np.int64]
    """(B,) The number of each example among all of the data."""

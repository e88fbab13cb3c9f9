"""Examples: encoded texts or pairs, with numeric labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """One encoded text or pair."""

    ids: NDArray[np.int32]
    """(T,) Token ids with special tokens, without padding. For an image, the token indices: the
    class token and the patches."""
    split: int | None = None
    """Position where the second text starts, for models with token types: 0 before it, 1 from it
    to the end. None if all types are 0 and the model needs no token types."""
    part: int = 0
    """Index of the example within its item, if an item has several examples, such as the two texts
    of a pair. 0 begins an item."""
    pixels: NDArray[np.uint8] | None = None
    """(P,) Pixel values of an image, 0 to 255, by channel, row and column. None for a text."""
    labels: tuple[float, ...] = ()
    """A class, several classes, a number, a class per token, the first and last token of a span, or
    target token ids. The task determines the kind."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Draw:
    """The inputs of all random choices about the examples of a batch."""

    seed: int
    epoch: int
    rows: NDArray[np.int64]
    """(B,) Index of each example in the dataset."""
    training: bool = False
    """Whether the batch is for training, not evaluation. Images may then be augmented at random."""

"""Examples: encoded texts or pairs, with their labels as numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """One encoded text or pair."""

    ids: NDArray[np.int32]
    """(T,) Token ids with special tokens, without padding; of a picture, the numbers of its tokens:
    the class token and the patches."""
    split: int | None = None
    """Where the second text starts, for models with token types: 0 before it, 1 from there to the
    end. None if all types are 0, and the model need not be told."""
    part: int = 0
    """The number of the example within its item, if an item has several, such as the two texts of a
    pair: 0 begins an item."""
    pixels: NDArray[np.uint8] | None = None
    """(P,) Of a picture: its numbers, 0 to 255, by channel, row and column. None of a text."""
    labels: tuple[float, ...] = ()
    """A class, several classes, a number, a class for each token, a first and a last token, or the
    tokens of a text to write: the task knows which."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Draw:
    """All that random choices about the examples of a batch depend on."""

    seed: int
    epoch: int
    rows: NDArray[np.int64]
    """(B,) The number of each example in the data."""
    learns: bool = False
    """Whether the batch is learnt from, rather than scored: pictures may be changed at random."""

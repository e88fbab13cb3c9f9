"""Bitwise equality, which needs a reason: another order of summation changes the last bits."""

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

Reason = Literal["stored", "same code", "moved", "one operation", "whole numbers", "rows apart"]
"""Why two results agree to the last bit on every CPU.

stored: one was written, copied or left alone, and is read again.
same code: the same operations ran again, on the same numbers in the same shapes.
moved: numbers were selected, drawn or put elsewhere, not computed.
one operation: each number is one rounded sum, difference, product or quotient.
whole numbers: ids, masks, and sums of whole numbers, which need no rounding.
rows apart: this machine's kernel was just seen to compute each row as if it were alone.
"""


def assert_same_bits(found: object, right: object, reason: Reason) -> None:
    """Check tensors or arrays, a dict of them, or any objects that ``==`` compares."""
    assert reason in get_args(Reason)
    if not isinstance(right, Tensor | np.ndarray | Mapping):
        assert found == right
        return
    torch.testing.assert_close(found, right, rtol=0, atol=0)
    if reason == "whole numbers":
        assert _is_whole(right)


def _is_whole(values: Tensor | np.ndarray | Mapping[str, Tensor]) -> bool:
    if isinstance(values, Mapping):
        return all(_is_whole(value) for value in values.values())
    return bool(torch.as_tensor(values).double().frac().eq(0).all())

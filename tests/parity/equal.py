"""Equality with the reference: the same in float64 except for rounding."""

import torch
from torch import Tensor


def assert_equal(found: Tensor | None, right: Tensor | None, name: str = "") -> None:
    """Check a tensor, or that neither model returns one."""
    if found is None or right is None:
        assert found is right, name
        return
    torch.testing.assert_close(
        found, right, rtol=1e-10, atol=1e-10, msg=lambda text: f"{name}: {text}"
    )

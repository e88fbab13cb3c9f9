import pytest
import torch

from heedful.errors import UserError
from heedful.layers.masks import from_attention_mask


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.uint8])
def test_a_row_for_each_sequence(dtype: torch.dtype) -> None:
    given = torch.tensor([[1, 1, 0], [1, 0, 0]], dtype=dtype)
    mask = from_attention_mask(given, batch=2, queries=3, keys=3)
    assert mask.shape == (2, 1, 1, 3)
    assert mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


def test_a_row_for_each_query() -> None:
    given = torch.tensor([[[1, 0, 0], [1, 1, 0]]])
    mask = from_attention_mask(given, batch=1, queries=2, keys=3)
    assert mask.shape == (1, 1, 2, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False]]


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 3), (2, 3, 4), (1, 1, 1, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"attention_mask has shape .* \(2, 3\) or \(2, 3, 3\)"):
        from_attention_mask(torch.ones(shape, dtype=torch.int64), batch=2, queries=3, keys=3)


@pytest.mark.parametrize(
    "row", [[1.0, 1.0, 0.0], [0, 2, 1], [1, -1, 0], [0.0, -1e9, 0.0], [0j, 1j, 0j]]
)
def test_other_types_and_values_are_refused(row: list[complex]) -> None:
    with pytest.raises(UserError, match="it must be bool, or integers that are 0"):
        from_attention_mask(torch.tensor([row]), batch=1, queries=3, keys=3)

import pytest
import torch

from heedful.errors import UserError
from heedful.layers.masks import for_self_attention, from_attention_mask


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
    "row", [[1.0, 0.5, 0.0], [0, 2, 1], [1, -1, 0], [0.0, -1e9, 0.0], [0j, 1j, 0j]]
)
def test_other_types_and_values_are_refused(row: list[complex]) -> None:
    with pytest.raises(UserError, match="it must be bool, or numbers that are 0"):
        from_attention_mask(torch.tensor([row]), batch=1, queries=3, keys=3)


def _rows(mask: torch.Tensor | None) -> list[str]:
    assert mask is not None
    return ["".join(str(int(value)) for value in row) for row in mask.flatten(0, -2)]


def _causal(given: torch.Tensor | None, queries: int, keys: int) -> torch.Tensor | None:
    return for_self_attention(
        given, batch=1, queries=queries, keys=keys, causal=True, device=torch.device("cpu")
    )


def test_a_decoder_sees_the_past_and_what_is_cached() -> None:
    assert _rows(_causal(None, 3, 3)) == ["100", "110", "111"]
    assert _rows(_causal(None, 2, 4)) == ["1110", "1111"]
    assert _rows(_causal(torch.tensor([[0, 1, 1, 1]]), 2, 4)) == ["0110", "0111"]


def test_a_last_query_sees_all_without_a_mask() -> None:
    assert _causal(None, 1, 4) is None
    assert _rows(_causal(torch.tensor([[0, 1, 1, 1]]), 1, 4)) == ["0111"]


def test_a_row_for_each_query_is_all_a_decoder_heeds() -> None:
    prefix = torch.tensor([[[1, 1, 0], [1, 1, 0], [1, 1, 1]]])
    assert _rows(_causal(prefix, 3, 3)) == ["110", "110", "111"]


def test_an_encoder_without_a_mask_has_none() -> None:
    sizes = {"batch": 1, "queries": 3, "keys": 3}
    given = torch.tensor([[1, 1, 0]])
    device = torch.device("cpu")
    assert for_self_attention(None, **sizes, causal=False, device=device) is None
    assert _rows(for_self_attention(given, **sizes, causal=False, device=device)) == ["110"]


def test_an_error_names_the_argument() -> None:
    with pytest.raises(UserError, match=r"^encoder_attention_mask has shape"):
        from_attention_mask(
            torch.ones(2, 2), batch=2, queries=3, keys=3, name="encoder_attention_mask"
        )
    with pytest.raises(UserError, match=r"^encoder_attention_mask holds values from 0 to 2"):
        from_attention_mask(
            torch.tensor([[0, 2]]), batch=1, queries=3, keys=2, name="encoder_attention_mask"
        )

"""A compiled encoder computes what the readable form does, for every head."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.compiled.test_linear import DTYPES
from tests.tiny import SIZES, STILL

from heedful.compiled.model import compile_model
from heedful.models import FAMILIES
from heedful.models.model import Model

HEADS = [
    (family, head)
    for family in ("bert", "roberta")
    for head in FAMILIES[family].models
    if head not in ("causal",)
]
LENGTHS = [5, 9, 2, 9, 1, 7, 5]


@pytest.fixture(params=[1, 2, 4], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def _model(family: str, head: Any, **options: Any) -> Model:
    torch.manual_seed(0)
    sizes = SIZES | {"max_position_embeddings": 16, "initializer_range": 0.2} | STILL | options
    config = FAMILIES[family].config_class()(**sizes)
    return FAMILIES[family].model_class(head).from_config(config).eval()


def _inputs(model: Model, lengths: list[int]) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 50, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids[~mask] = model.config.pad_token_id or 0
    return {"input_ids": ids, "attention_mask": mask}


def _numbers(output: Any) -> torch.Tensor:
    """Return what a model computed first that is not a cache."""
    return next(value for value in output.to_tuple() if isinstance(value, torch.Tensor)).float()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_head(family: str, head: str, dtype: torch.dtype) -> None:
    model = _model(family, head).to(dtype)
    compiled = compile_model(model)
    assert compiled.kernel == "packed"
    tolerance = 1e-5 if dtype is torch.float32 else 0.1
    for lengths in (LENGTHS, [6, 6, 6], [4], [1]):
        inputs = _inputs(model, lengths)
        mask = inputs["attention_mask"]
        if head == "choice":
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        with torch.inference_mode():
            plain, fast = _numbers(model(**inputs)), _numbers(compiled.model(**inputs))
        if plain.shape[:2] == mask.shape and plain.shape[1] > 1:
            plain, fast = plain[mask], fast[mask]
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)

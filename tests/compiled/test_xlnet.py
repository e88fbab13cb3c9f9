"""XLNet's compiled form: distances and segments of sequences without their padding."""

from typing import Any

import pytest
import torch

from heedful.compiled.kernels import encoder_kernel
from heedful.compiled.model import compile_model
from heedful.models import XLNetConfig, XLNetForSequenceClassification, XLNetModel

B, S = 4, 40
LENGTHS = torch.tensor([[S], [7], [S], [23]])
RIGHT = torch.arange(S) < LENGTHS
SIZES: dict[str, Any] = {
    **{"vocab_size": 50, "n_layer": 2, "n_head": 2, "d_model": 32, "d_inner": 48},
    "initializer_range": 0.3,
}
HOLE = RIGHT.clone()
HOLE[0, 5] = False
MEMORY = tuple(torch.randn(3, B, 32) for _ in range(2))

CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "no padding": ({}, True),
    "on the right": ({"attention_mask": RIGHT}, True),
    "on the left": ({"attention_mask": RIGHT.flip(1)}, True),
    "by the other mask": ({"input_mask": ~RIGHT}, True),
    "a hole": ({"attention_mask": HOLE}, False),
    "an order": ({"perm_mask": torch.eye(S)[None].expand(B, -1, -1)}, False),
    "memory": ({"mems": MEMORY}, False),
    "predicted": ({"target_mapping": torch.eye(S)[None, :2].expand(B, -1, -1)}, False),
}
"""Arguments, and whether the compiled form computes them."""


@pytest.fixture(autouse=True)
def _needs_kernels() -> None:
    if encoder_kernel(torch.float32, torch.device("cpu"))[0] == "plain":
        pytest.skip("this CPU has no fast kernels")


@pytest.mark.parametrize("changes", [{}, {"clamp_len": 4}, {"pruned_heads": {0: [1]}}], ids=str)
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_model_does(
    name: str, segments: bool, changes: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = XLNetModel(XLNetConfig(**SIZES, **changes)).eval()
    more, packed = CASES[name]
    inputs: dict[str, Any] = {"input_ids": torch.randint(50, (B, S)), **more}
    if segments:
        inputs["token_type_ids"] = torch.randint(3, (B, S))
    with torch.inference_mode():
        fast = compile_model(model).model(**inputs, output_kernels=True)
        right = model(**inputs).last_hidden_state
    assert fast.kernels == (("packed",) * 2 if packed else ("fused",) * 2)
    real = more.get("attention_mask")
    real = RIGHT if "input_mask" in more else real
    chosen = fast.last_hidden_state, right
    if real is not None:
        chosen = tuple(states[real] for states in chosen)  # type: ignore[assignment]
    torch.testing.assert_close(*chosen, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", [RIGHT, RIGHT.flip(1)], ids=["right", "left"])
def test_a_classifier_reads_the_last_token(mask: torch.Tensor) -> None:
    torch.manual_seed(0)
    model = XLNetForSequenceClassification(XLNetConfig(**SIZES)).eval()
    ids = torch.randint(50, (B, S))
    fast = compile_model(model).model
    with torch.inference_mode():
        right = model(ids, mask).logits
        torch.testing.assert_close(fast(ids, mask).logits, right, rtol=1e-4, atol=1e-4)
        alone = torch.cat([model(ids[row : row + 1, real]).logits for row, real in enumerate(mask)])
    torch.testing.assert_close(right, alone, rtol=1e-4, atol=1e-4)

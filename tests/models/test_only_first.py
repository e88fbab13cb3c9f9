"""Computing only the first token in the last block equals computing all tokens."""

import pytest
import torch
from tests import tiny

from heedful import BertConfig, BertModel


@pytest.mark.parametrize("mask", ["none", "padding", "per query"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_only_first_equals_all(mask: str, checkpointing: bool) -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**tiny.SIZES, **tiny.STILL)).double().train()
    model.gradient_checkpointing = checkpointing
    ids = torch.randint(1, 30, (3, 9))
    given = {
        "none": None,
        "padding": torch.arange(9) < torch.tensor([[9], [5], [1]]),
        "per query": torch.rand(3, 9, 9) < 0.6,
    }[mask]
    results = []
    for only_first in (False, True):
        model.zero_grad()
        out = model(ids, given, only_first=only_first)
        torch.autograd.backward(
            out.pooler_output.square().sum() + out.last_hidden_state[:, 0].sin().sum()
        )
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append((out.last_hidden_state[:, :1], out.pooler_output, gradients))
        assert out.last_hidden_state.shape == (3, 1 if only_first else 9, 24)
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-12)

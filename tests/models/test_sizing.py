"""How many tokens are answered for at once."""

import pytest
import torch

from heedful import BertConfig, BertModel
from heedful.models.sizing import tokens_at_once


@pytest.mark.parametrize(
    ("inner", "dtype", "tokens"),
    [
        (64, torch.float32, 4096),
        (2048, torch.float32, 4096),
        (2064, torch.float32, 2048),
        (3072, torch.float32, 2048),
        (3072, torch.bfloat16, 4096),
        (4096, torch.float64, 1024),
    ],
)
def test_the_widest_product_stays_below_what_glibc_hands_back(
    inner: int, dtype: torch.dtype, tokens: int
) -> None:
    config = BertConfig(
        vocab_size=10,
        hidden_size=8,
        num_attention_heads=1,
        num_hidden_layers=1,
        intermediate_size=inner,
    )
    assert tokens_at_once(BertModel(config).to(dtype)) == tokens
    assert tokens * inner * dtype.itemsize <= 32 * 2**20

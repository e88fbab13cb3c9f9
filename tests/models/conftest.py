from typing import Any

import pytest
import torch

from heedful.models import BertConfig

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 12,
}


@pytest.fixture
def config() -> BertConfig:
    """Give a tiny configuration, and a seed for the weights."""
    torch.manual_seed(0)
    return BertConfig(**SIZES, num_labels=3)


@pytest.fixture
def still() -> BertConfig:
    """Give the same without dropout."""
    torch.manual_seed(0)
    return BertConfig(
        **SIZES, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )

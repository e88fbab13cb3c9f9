import pytest
import torch
from tests import tiny

from heedful.models import BertConfig


@pytest.fixture
def config() -> BertConfig:
    """Provide a tiny configuration, and a seed for the weights."""
    torch.manual_seed(0)
    return BertConfig(**tiny.SIZES, num_labels=3)


@pytest.fixture
def still() -> BertConfig:
    """Provide the same without dropout."""
    torch.manual_seed(0)
    return BertConfig(**tiny.SIZES, **tiny.STILL, num_labels=3)

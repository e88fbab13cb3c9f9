"""A batch without labels that count: the mean loss is NaN, but no weight is spoilt."""

from typing import Any

import pytest
import torch
from torch import Tensor

from heedful import (
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from heedful.models import BertConfig

NONE = torch.full((2, 5), -100)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        (
            BertForQuestionAnswering,
            {"start_positions": torch.tensor([2, 3]), "end_positions": torch.tensor([8, 9])},
        ),
        (BertForTokenClassification, {"labels": NONE}),
        (BertForSequenceClassification, {"labels": NONE[:, 0]}),
        (BertForMaskedLM, {"labels": NONE}),
    ],
)
def test_no_gradient_is_spoilt(kind: Any, labels: dict[str, Tensor]) -> None:
    torch.manual_seed(0)
    model = kind(
        BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            num_labels=2,
        )
    )
    loss = model(input_ids=torch.randint(20, (2, 5)), **labels).loss
    assert loss.isnan()
    loss.backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)

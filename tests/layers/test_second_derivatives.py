"""Second derivatives are torch's where there are any; elsewhere an error says what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from heedful import BertConfig, BertForMaskedLM, BertForSequenceClassification, losses
from heedful.layers import dropout, packing
from heedful.models.bert.config import BertConfig as Config


def _config(**changes: Any) -> Config:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertConfig(intermediate_size=24, vocab_size=40, **sizes, **still, **changes)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_of_the_cross_entropy(smoothing: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, losses.IGNORED, 2, 2, 1])

    def ours(logits: Tensor) -> Tensor:
        return losses.cross_entropy(logits, labels, label_smoothing=smoothing)[0]

    assert torch.autograd.gradcheck(ours, (logits,))
    assert torch.autograd.gradgradcheck(ours, (logits,))


def test_of_dropout_and_packing() -> None:
    values = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[True, True, False], [True, True, True]])
    plan = packing.packing(tokens)

    def dropped(values: Tensor) -> Tensor:
        torch.manual_seed(1)
        return dropout.Dropout(0.5)(values).square()

    def packed(values: Tensor) -> Tensor:
        return plan.restore(plan.pack(values).square())

    for function in (dropped, packed):
        assert torch.autograd.gradgradcheck(function, (values,))


def _penalised(model: Any, loss: Callable[[], Tensor]) -> Tensor:
    """Return the gradient of the pooler of a loss with a penalty on its gradient."""
    model.zero_grad()
    value = loss()
    weight = model.bert.pooler.dense.weight
    (gradient,) = torch.autograd.grad(value, weight, create_graph=True)
    (value + 10 * gradient.square().sum()).backward()
    assert weight.grad is not None
    return weight.grad.clone()


@pytest.mark.parametrize("padded", [False, True])
def test_a_gradient_penalty_through_labels(padded: bool) -> None:
    torch.manual_seed(0)
    model = BertForSequenceClassification(_config(num_labels=3)).double().train()
    ids, labels = torch.randint(2, 40, (4, 6)), torch.tensor([0, 1, 2, 1])
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0 if padded else 1
    options = {"attention_mask": mask}
    with sdpa_kernel(SDPBackend.MATH):
        by_labels = _penalised(model, lambda: model(ids, **options, labels=labels).loss)
        by_logits = _penalised(
            model, lambda: torch.nn.functional.cross_entropy(model(ids, **options).logits, labels)
        )
    torch.testing.assert_close(by_labels, by_logits)


def test_what_has_none_says_so() -> None:
    model = BertForSequenceClassification(_config()).train()
    model.bert.encoder.layer[0].attention.self.dropout.p = 0.1  # so that the plain path computes
    ids, labels = torch.randint(2, 40, (4, 6)), torch.tensor([0, 1, 0, 1])
    weight = model.bert.encoder.layer[0].attention.self.query.weight
    loss = model(ids, labels=labels).loss
    (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="this operation has no second derivatives in heedful"):
        gradient.square().sum().backward()


def test_a_large_loss_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_TWICE", 10)
    model = BertForMaskedLM(_config()).train()
    ids = torch.randint(2, 40, (4, 6))
    loss = model(ids, labels=ids).loss
    (gradient,) = torch.autograd.grad(loss, model.cls.predictions.bias, create_graph=True)
    with pytest.raises(RuntimeError, match="this operation has no second derivatives in heedful"):
        gradient.square().sum().backward()

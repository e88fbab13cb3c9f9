"""Sparse table gradients and narrow weights change the cost of a step, not its result."""

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from torch import nn

from heedful import BertConfig, BertForSequenceClassification
from heedful.training import gradients
from heedful.training.gradients import NarrowWeights, TableGradients, gradient_values


def model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(**tiny.SIZES, **tiny.STILL, num_labels=3)
    return BertForSequenceClassification(config).train()


IDS = [torch.tensor([[2, 5, 5, 3], [2, 7, 9, 3]]), torch.tensor([[2, 9, 11, 0, 3]])]


def backward(network: nn.Module) -> None:
    """Add up the gradients of two micro-batches that share words, and hold a word twice."""
    for ids in IDS:
        torch.autograd.backward(network(ids).logits.square().sum())


def test_three_steps_with_sparse_tables_are_three_steps_with_dense_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gradients, "_LARGE_TABLE_ROWS", 1)
    plain, sparse = model().double(), model().double()
    tables = TableGradients(sparse)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (plain, sparse)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        backward(plain)
        with tables.sparse():
            backward(sparse)
        word = sparse.bert.embeddings.word_embeddings.weight
        assert word.grad is not None
        assert word.grad.is_sparse
        values = gradient_values(sparse.parameters())
        dense = [p.grad for p in plain.parameters() if p.grad is not None]
        norms = [torch.nn.utils.get_total_norm(v) for v in (values, dense)]
        torch.testing.assert_close(norms[0], norms[1], rtol=1e-12, atol=0)
        # Scaling the values, as clipping does, scales what the optimizer is shown.
        torch._foreach_mul_(values, 0.5)
        torch._foreach_mul_(dense, 0.5)
        optimizers[0].step()
        with tables.dense():
            torch.testing.assert_close(
                word.grad, plain.bert.embeddings.word_embeddings.weight.grad, rtol=1e-12, atol=1e-14
            )
            optimizers[1].step()
    for (name, one), other in zip(plain.named_parameters(), sparse.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12, msg=name)
    assert not sparse.bert.embeddings.word_embeddings.sparse


def test_small_tables_are_left_alone() -> None:
    network = model()
    with TableGradients(network).sparse():
        backward(network)
    assert not any(p.grad.is_sparse for p in network.parameters() if p.grad is not None)


def test_narrow_weights_give_the_gradients_of_the_narrow_model() -> None:
    """In float32 they are the model's own gradients; in bfloat16 those of rounded weights."""
    plain, copied = model().double(), model().double()
    narrow = NarrowWeights(copied, torch.float32)
    narrow.renew()
    backward(plain)
    for ids in IDS:
        torch.autograd.backward(narrow.forward(input_ids=ids).logits.square().sum())  # type: ignore[attr-defined]
        narrow.collect()
    for (name, one), other in zip(plain.named_parameters(), copied.parameters(), strict=True):
        assert other.dtype is torch.float64
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5, msg=name)


def test_narrow_weights_follow_the_model_and_leave_it_alone() -> None:
    network = model()
    narrow = NarrowWeights(network, torch.bfloat16)
    ids = IDS[0]
    before = narrow.forward(input_ids=ids).logits  # type: ignore[attr-defined]
    assert before.dtype is torch.bfloat16
    with torch.no_grad():
        network.classifier.bias.add_(1.0)
    again = narrow.forward(input_ids=ids).logits  # type: ignore[attr-defined]
    assert_same_bits(again, before, "same code")
    narrow.renew()
    changed = narrow.forward(input_ids=ids).logits  # type: ignore[attr-defined]
    torch.testing.assert_close(changed.float(), before.float() + 1, rtol=0.02, atol=0.02)
    assert network.classifier.bias.dtype is torch.float32
    assert network.bert.embeddings.word_embeddings.weight.dtype is torch.float32


def test_what_gives_numbers_is_as_wide_as_the_model() -> None:
    config = BertConfig(**tiny.SIZES, **tiny.STILL, num_labels=1, problem_type="regression")
    network = BertForSequenceClassification(config).train()
    torch.nn.init.constant_(network.classifier.bias, 2004.3)
    narrow = NarrowWeights(network, torch.bfloat16)
    for ids in IDS:
        narrow.renew()
        logits = narrow.forward(input_ids=ids).logits  # type: ignore[attr-defined]
        torch.testing.assert_close(logits, network(ids).logits, rtol=0, atol=0.05)
        torch.autograd.backward(logits.sum())
        narrow.collect()
    assert network.classifier.bias.grad is not None
    assert network.classifier.bias.grad.item() == 3
    assert network.bert.pooler.dense.weight.grad is not None


def test_what_does_not_learn_is_narrow_too() -> None:
    network = model()
    network.bert.pooler.requires_grad_(False)
    narrow = NarrowWeights(network, torch.bfloat16)
    torch.autograd.backward(narrow.forward(input_ids=IDS[0]).logits.square().sum())  # type: ignore[attr-defined]
    narrow.collect()
    assert all(parameter.grad is None for parameter in network.bert.pooler.parameters())
    assert network.classifier.weight.grad is not None


def test_what_is_shared_is_narrow_under_each_of_its_names() -> None:
    network = model()
    first, second = (each.output.dense for each in network.bert.encoder.distinct)
    second.weight = first.weight
    narrow = NarrowWeights(network, torch.bfloat16)
    narrow.renew()
    torch.autograd.backward(narrow.forward(input_ids=IDS[0]).logits.square().sum())  # type: ignore[attr-defined]
    narrow.collect()
    shared = first.weight.grad
    assert shared is not None
    backward_of = network.to(torch.float64)
    backward_of.zero_grad()
    backward_of(IDS[0]).logits.square().sum().backward()
    assert first.weight.grad is not None
    torch.testing.assert_close(shared.double(), first.weight.grad, rtol=0.1, atol=1e-2)

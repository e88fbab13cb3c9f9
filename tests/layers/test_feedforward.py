"""The feed-forward part, which may recompute its inner states."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from heedful.layers import feedforward
from heedful.layers.feedforward import ACTIVATIONS, Intermediate

SHAPE = (2, 5, 8)


def parts(activation: str) -> tuple[Intermediate, nn.Linear]:
    torch.manual_seed(0)
    return Intermediate(8, 16, activation).double(), nn.Linear(16, 8).double()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_computing_again_gives_the_same(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, dense = parts(activation)
    hidden = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    wanted = torch.randn(SHAPE, dtype=torch.float64)
    weights = [hidden, *inner.parameters(), *dense.parameters()]
    plain = inner.project(hidden, dense)
    gradients = torch.autograd.grad(plain, weights, wanted)
    monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", 1)
    again = inner.project(hidden, dense)
    assert "Activated" in type(again.grad_fn).__name__
    torch.testing.assert_close(again, plain)
    torch.testing.assert_close(torch.autograd.grad(again, weights, wanted), gradients)


def test_inner_states_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, dense = parts("gelu")
    monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", 1)
    kept: set[int] = set()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape[-1] == 16 and tensor.ndim == 3:
            kept.add(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        inner.project(torch.randn(SHAPE, dtype=torch.float64), dense)
    assert len(kept) == 1


def test_dropped_inner_states_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", 1)
    inner, dense = Intermediate(8, 16, "gelu", dropout=0.5), nn.Linear(16, 8)
    hidden = torch.randn(SHAPE)
    assert "Activated" not in type(inner.project(hidden, dense).grad_fn).__name__
    inner.eval()
    assert "Activated" in type(inner.project(hidden, dense).grad_fn).__name__


def test_computing_again_after_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    inner, dense = Intermediate(8, 16, "gelu"), nn.Linear(16, 8)
    weights = [*inner.parameters(), *dense.parameters()]
    hidden = torch.randn(SHAPE)
    gradients = []
    for size in (10**9, 1):
        monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", size)
        with torch.autocast("cpu", torch.bfloat16):
            projected = inner.project(hidden, dense)
        gradients.append(torch.autograd.grad(projected.float().sum(), weights))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0.02, atol=0.02)
    assert all(gradient.dtype is torch.float32 for gradient in gradients[1])


class Doubled(nn.Linear):
    """An adapter: a linear layer with a forward pass of its own."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(hidden)


def test_a_layer_with_its_own_forward_or_hooks_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", 1)
    inner, dense = parts("gelu")
    hidden = torch.randn(SHAPE, dtype=torch.float64)
    plain = inner.project(hidden, dense)
    adapter = Doubled(16, 8).double()
    adapter.load_state_dict(dense.state_dict())
    torch.testing.assert_close(inner.project(hidden, adapter), 2 * plain)
    seen: list[torch.Tensor] = []
    hook = dense.register_forward_hook(lambda *call: seen.append(call[-1]))
    torch.testing.assert_close(inner.project(hidden, dense), plain)
    assert len(seen) == 1
    hook.remove()
    dense.register_full_backward_hook(lambda *call: seen.append(call[-1]))
    inner.project(hidden, dense).sum().backward()
    assert len(seen) == 2


def test_pruned_weights_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "_RECOMPUTE_FROM", 1)
    inner, dense = parts("gelu")
    prune.l1_unstructured(dense, "weight", amount=0.5)  # type: ignore[no-untyped-call]
    for _ in range(2):
        inner.project(torch.randn(SHAPE, dtype=torch.float64), dense).sum().backward()
    assert dense.weight_orig.grad is not None

"""Linear layers that use oneDNN's product equal those that use torch's, forward and backward."""

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from torch import Tensor
from torch.autograd import forward_ad

from heedful.layers import linear as module
from heedful.layers.kernel_check import kernel_error
from heedful.layers.linear import Linear, linear

pytestmark = pytest.mark.skipif(
    kernel_error(module._computes_right) is not None, reason="torch has no product of oneDNN's"
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Let oneDNN compute all it can, and record the shapes of its products."""
    shapes: list[torch.Size] = []
    multiply = module._multiply

    def counted(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        shapes.append(hidden.shape)
        return multiply(hidden, weight, bias)

    monkeypatch.setattr(module, "_MIN_MULTIPLICATIONS", 1)
    monkeypatch.setattr(module, "uses_onednn", lambda: (True, "asked for"))
    monkeypatch.setattr(module, "_multiply", counted)
    return shapes


def _near(one: Tensor, other: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "biased"), [*product([(5, 12), (3, 5, 12), (2, 3, 5, 12), (1, 1, 12)], [True, False])]
)
def test_values_and_gradients(
    shape: tuple[int, ...], biased: bool, asked: list[torch.Size]
) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(shape), torch.randn(7, 12), *([torch.randn(7)] if biased else [])]
    grad = torch.randn(*shape[:-1], 7)
    sides = []
    for function in (linear, F.linear):
        copies = [part.clone().requires_grad_() for part in inputs]
        value = function(*copies)
        sides.append([value, *torch.autograd.grad(value, copies, grad)])
    for mine, its in zip(*sides, strict=True):
        _near(mine, its)
    assert len(asked) == 3
    with torch.no_grad():
        _near(linear(*inputs), F.linear(*inputs))
    assert len(asked) == 4


@pytest.mark.parametrize("known", range(3))
def test_only_gradients_that_are_wanted_are_computed(known: int, asked: list[torch.Size]) -> None:
    inputs = [torch.randn(5, 12), torch.randn(7, 12), torch.randn(7)]
    for number, part in enumerate(inputs):
        part.requires_grad_(number == known)
    linear(*inputs).sum().backward()
    assert [part.grad is not None for part in inputs] == [number == known for number in range(3)]
    assert len(asked) == (1 if known == 2 else 2)


def test_gradients_of_transposed_inputs(asked: list[torch.Size]) -> None:
    torch.manual_seed(0)
    hidden, weight, grad = torch.randn(12, 5).T, torch.randn(12, 7).T, torch.randn(7, 5).T
    sides = []
    for function in (linear, F.linear):
        copies = [part.detach().requires_grad_() for part in (hidden, weight)]
        value = function(*copies)
        sides.append([value, *torch.autograd.grad(value, copies, grad)])
    for mine, its in zip(*sides, strict=True):
        _near(mine, its)
    assert len(asked) == 3


def test_other_numbers_are_torchs(asked: list[torch.Size]) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        layer = Linear(12, 7).to(dtype)
        hidden = torch.randn(5, 12, dtype=dtype)
        plain = F.linear(hidden, layer.weight, layer.bias)
        assert_same_bits(layer(hidden), plain, "same code")
    assert not asked
    Linear(12, 7)(torch.randn(5, 12))
    assert asked == [(5, 12)]


def test_autocast_narrows_as_ever(asked: list[torch.Size]) -> None:
    layer = Linear(12, 7)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(5, 12)).dtype is torch.bfloat16
    assert not asked


def _penalty(function: Any, hidden: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    """Return the gradients of a gradient's norm."""
    copies = [part.detach().requires_grad_() for part in (hidden, weight, bias)]
    value = function(*copies).sin().sum()
    (slope,) = torch.autograd.grad(value, copies[0], create_graph=True)
    return list(torch.autograd.grad(slope.square().sum(), copies))


def test_second_derivatives(asked: list[torch.Size]) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(5, 12), torch.randn(7, 12), torch.randn(7))
    for mine, its in zip(_penalty(linear, *inputs), _penalty(F.linear, *inputs), strict=True):
        _near(mine, its, 1e-3)
    assert len(asked) > 4


def test_forward_and_batched_derivatives_are_torchs(asked: list[torch.Size]) -> None:
    torch.manual_seed(0)
    layer, plain, hidden = Linear(12, 7), torch.nn.Linear(12, 7), torch.randn(5, 12)
    plain.load_state_dict(layer.state_dict())
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            _near(*(torch.func.jvp(each, (hidden,), (hidden,))[1] for each in (layer, plain)))
            _near(*(torch.func.vmap(each)(hidden[:, None]) for each in (layer, plain)))
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(hidden, hidden)
                _near(*(forward_ad.unpack_dual(each(dual)).tangent for each in (layer, plain)))
    _near(*(torch.func.grad(lambda x, f=each: f(x).sin().sum())(hidden) for each in (layer, plain)))
    assert not asked
    hidden.requires_grad_()
    grads = torch.randn(3, 5, 7)
    _near(
        *(
            torch.autograd.grad(each(hidden), hidden, grads, is_grads_batched=True)[0]
            for each in (layer, plain)
        )
    )


def test_what_does_not_fit_is_torchs(asked: list[torch.Size]) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(5, 12), torch.randn(7, 12)
    for bias in (torch.randn(7, 2)[:, 0], torch.zeros(()).expand(7), torch.randn(1, 7)):
        _near(linear(hidden, weight, bias), F.linear(hidden, weight, bias))
    _near(linear(hidden[0], weight), F.linear(hidden[0], weight))
    for wrong in (torch.randn(5, 11), torch.randn(5, 12).bfloat16()):
        with pytest.raises(RuntimeError, match=r"mat1 and mat2|dtype"):
            linear(wrong, weight)
    assert not asked


@pytest.mark.parametrize(("frozen", "kept"), [("weight", {(7, 12)}), ("hidden", {(5, 12)})])
def test_only_what_gradients_need_is_kept(
    frozen: str, kept: set[tuple[int, ...]], asked: list[torch.Size]
) -> None:
    layer, hidden = Linear(12, 7), torch.randn(5, 12, requires_grad=frozen == "weight")
    layer.weight.requires_grad_(frozen == "hidden")
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        layer(hidden)
    assert {tuple(part.shape) for part in saved} == kept
    assert asked


def test_a_trace_is_of_plain_products(asked: list[torch.Size]) -> None:
    hidden, layer = torch.randn(5, 12), Linear(12, 7)
    traced = torch.jit.trace(layer, hidden, check_trace=False)  # type: ignore[no-untyped-call]
    assert not asked
    _near(traced(hidden), layer(hidden))


def test_an_export_is_of_plain_products(asked: list[torch.Size]) -> None:
    program = torch.export.export(Linear(12, 7), (torch.randn(5, 12),))
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert targets == {"aten.linear.default"}
    assert not asked


def test_small_products_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "uses_onednn", lambda: (True, "asked for"))
    weight = torch.randn(256, 512)
    assert not module._supported(torch.randn(127, 512), weight, None)
    assert module._supported(torch.randn(2, 64, 512), weight, None)


@pytest.mark.parametrize(
    ("capability", "intel", "faster"),
    [("AVX512", False, True), ("AVX512", True, False), ("AVX2", False, False)],
)
def test_which_cpus_it_is_for(
    monkeypatch: pytest.MonkeyPatch, capability: str, intel: bool, faster: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(module, "_is_by_intel", lambda: intel)
    assert module.uses_onednn.__wrapped__()[0] is faster

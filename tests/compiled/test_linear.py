"""A packed linear layer computes the same as the plain one."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.compiled import kernels
from heedful.compiled.linear import PackedLinear, concatenated
from heedful.layers.feedforward import ACTIVATIONS

CPU = torch.device("cpu")
DTYPES = [
    pytest.param(
        dtype,
        marks=pytest.mark.skipif(
            kernels.encoder_kernel(dtype, CPU)[0] == kernels.PLAIN,
            reason=f"{dtype}: {kernels.encoder_kernel(dtype, CPU)[1]}",
        ),
    )
    for dtype in (torch.float32, torch.bfloat16)
]


def _drawn(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape).to(dtype)


def _close(packed: Tensor, plain: Tensor) -> None:
    assert packed.dtype is plain.dtype
    eps = torch.finfo(plain.dtype).eps
    torch.testing.assert_close(packed, plain, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("apart", [True, False])
def test_products_with_an_activation(
    dtype: torch.dtype,
    activation: str | None,
    rows: int,
    apart: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "activate_apart", lambda dtype: apart)
    weight, bias, hidden = (_drawn(dtype, *shape) for shape in ((20, 12), (20,), (rows, 12)))
    packed = PackedLinear(weight, bias, activation)(hidden)
    product = F.linear(hidden.double(), weight.double(), bias.double())
    _close(packed, (ACTIVATIONS[activation](product) if activation else product).to(dtype))


@pytest.mark.parametrize(
    ("capability", "dtype", "apart"),
    [
        ("AVX2", torch.float32, True),
        ("AVX2", torch.bfloat16, False),
        ("AVX512", torch.float32, False),
    ],
)
def test_where_activations_are_not_fused(
    capability: str, dtype: torch.dtype, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert kernels.activate_apart(dtype) is apart


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 33])
def test_products_with_a_residual(dtype: torch.dtype, rows: int) -> None:
    weight, bias, hidden = (_drawn(dtype, *shape) for shape in ((20, 12), (20,), (rows, 12)))
    residual = _drawn(dtype, rows, 20)
    product = F.linear(hidden.double(), weight.double(), bias.double())
    _close(PackedLinear(weight, bias)(hidden, residual), (product + residual.double()).to(dtype))
    product = F.linear(hidden.double(), weight.double())
    _close(PackedLinear(weight)(hidden, residual), (product + residual.double()).to(dtype))


def test_layers_that_read_the_same_are_one_product() -> None:
    layers = [nn.Linear(6, 4), nn.Linear(6, 5)]
    hidden = torch.randn(3, 6)
    weight, bias = concatenated(layers)
    _close(F.linear(hidden, weight, bias), torch.cat([layer(hidden) for layer in layers], 1))
    weight, none = concatenated([nn.Linear(6, 4, bias=False)])
    assert none is None
    assert weight.shape == (4, 6)


def test_what_is_packed_does_not_follow_the_weight() -> None:
    weight, hidden = torch.randn(4, 6), torch.randn(3, 6)
    packed = PackedLinear(weight)
    before = packed(hidden)
    weight.zero_()
    torch.testing.assert_close(packed(hidden), before)


@pytest.fixture
def afresh() -> None:
    kernels._wrong_with_packed.cache_clear()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("missing", ["pack", "multiply", "multiply_and_add"])
def test_a_kernel_that_is_missing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*arguments: object) -> None:
        raise AttributeError("no such kernel")

    monkeypatch.setattr(kernels, missing, absent)
    assert kernels.encoder_kernel(torch.float32, CPU) == ("plain", "no such kernel")
    kernels._wrong_with_packed.cache_clear()


@pytest.mark.usefixtures("afresh")
def test_a_kernel_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.multiply
    monkeypatch.setattr(kernels, "multiply", lambda *arguments: right(*arguments) * 1.01)
    kernel, reason = kernels.encoder_kernel(torch.float32, CPU)
    assert (kernel, reason) == ("plain", "the results of the kernel are wrong")
    kernels._wrong_with_packed.cache_clear()


def test_packed_weights_are_for_cpus() -> None:
    assert kernels.encoder_kernel(torch.float32, torch.device("meta"))[0] == "plain"

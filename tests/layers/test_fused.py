"""What a GPU does to rows in one kernel is what torch's operations do one after the other.

Torch stands in for the kernels. They themselves are interpreted on a CPU, in float32, where that is
asked for: ``TRITON_INTERPRET=1`` with Triton and a numpy before 2.4. On a GPU ``test_cuda.py`` has
them compute in half precision.
"""

import importlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests import tiny
from tests.exact import assert_same_bits
from tests.layers.fused_in_torch import kernels
from torch import Tensor, nn

from heedful import BertConfig, BertModel, layers
from heedful.layers import fused

NAME = "heedful.layers.fused_kernels"
CPU = torch.device("cpu")


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernels for everything, on a CPU and in float32."""
    monkeypatch.setattr(fused, "_DEVICE_TYPE", "cpu")
    monkeypatch.setattr(fused, "_DTYPES", (torch.float32,))
    monkeypatch.setattr(fused, "_MIN_SIZE", 0)
    monkeypatch.setattr(fused, "_MIN_SIZE_TRAINING", 0)
    monkeypatch.setattr(fused, "why_no_kernels", lambda device: None)


@pytest.fixture(autouse=True, params=["in torch", "interpreted"])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate kernels of a device with two processors."""
    monkeypatch.setattr(fused, "_num_processors", lambda device: 2)
    if request.param == "in torch":
        monkeypatch.setitem(sys.modules, NAME, kernels)
        monkeypatch.setattr(layers, "fused_kernels", kernels, raising=False)
    else:
        # Triton asks for it when it is imported, and counts as numpy did before 2.4.
        old = np.lib.NumpyVersion(np.__version__) < "2.4.0"
        if os.environ.get("TRITON_INTERPRET") != "1" or not old:
            pytest.skip("needs TRITON_INTERPRET=1 and a numpy before 2.4")
        pytest.importorskip("triton", reason="needs Triton, which interprets the kernels")
        monkeypatch.delitem(sys.modules, NAME, raising=False)
        monkeypatch.setattr(layers, "fused_kernels", importlib.import_module(NAME), raising=False)
    yield
    sys.modules.pop(NAME, None)


def part(inner: int, width: int) -> tuple[nn.Linear, nn.LayerNorm]:
    """Return a projection and a norm with random weights."""
    torch.manual_seed(0)
    dense, norm = nn.Linear(inner, width), nn.LayerNorm(width, eps=1e-3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return dense, norm


def gradients(ended: Tensor, wanted: list[Tensor]) -> list[Tensor]:
    """Return the gradients of a number that depends on all values."""
    weights = torch.linspace(-1, 1, ended.numel()).view(ended.shape)
    return list(torch.autograd.grad((ended * weights).sum(), wanted))


@pytest.mark.parametrize(("shape", "width"), [((1, 20), 61), ((3, 2), 64), ((1, 1), 130)])
def test_the_end_of_a_part(width: int, shape: tuple[int, int]) -> None:
    dense, norm = part(20, width)
    inner = torch.randn(*shape, 20, requires_grad=True)
    hidden = torch.randn(*shape, width, requires_grad=True)
    wanted = [inner, hidden, *dense.parameters(), *norm.parameters()]
    ours = fused.dropout_add_norm(inner, dense, hidden, norm, dropout=0.0)
    plain = norm(dense(inner) + hidden)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        alone = fused.dropout_add_norm(inner, dense, hidden, norm, dropout=0.0)
    torch.testing.assert_close(alone, plain, rtol=1e-5, atol=1e-5)
    for mine, its in zip(gradients(ours, wanted), gradients(plain, wanted), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [24, 64])
def test_what_is_dropped_is_dropped_backwards(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing is added, the output shows what was dropped."""
    dropout = 0.25
    least = round(dropout * 2**31)
    keys = iter(range(2**62, 2**62 + 100))
    monkeypatch.setattr(fused, "_draw", lambda *_: (next(keys), least, 1 / (1 - dropout)))
    dense, norm = part(width, width)
    count = 60
    with torch.no_grad():
        dense.weight.copy_(torch.eye(width))
        dense.bias.fill_(0.5)
        norm.weight.fill_(1)
        norm.bias.zero_()
    inner = torch.rand(count, width) + 1
    hidden = torch.zeros(count, width, requires_grad=True)
    inner.requires_grad_()
    ended = fused.dropout_add_norm(inner, dense, hidden, norm, dropout=dropout)
    kept = ended > ended.amin(1, keepdim=True) + 1e-4
    share = float(kept.float().mean())
    assert abs(share - (1 - dropout)) < 5 * math.sqrt(dropout * (1 - dropout) / kept.numel())
    assert kept.float().mean(0).min() > 0.5  # in all segments of a row
    plain = norm(torch.where(kept, dense(inner) / (1 - dropout), 0) + hidden)
    torch.testing.assert_close(ended, plain, rtol=1e-4, atol=1e-4)
    wanted = [inner, hidden, *dense.parameters(), *norm.parameters()]
    for mine, its in zip(gradients(ended, wanted), gradients(plain, wanted), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-4)
    again = fused.dropout_add_norm(inner, dense, hidden, norm, dropout=dropout)
    assert (again > again.amin(1, keepdim=True) + 1e-4).ne(kept).any()


@pytest.mark.parametrize(("count", "width"), [(1, 8), (37, 61), (80, 256), (5, 300)])
def test_an_activated_product(count: int, width: int) -> None:
    torch.manual_seed(0)
    dense = nn.Linear(12, width)
    hidden = (3 * torch.randn(1, count, 12)).requires_grad_()
    wanted = [hidden, *dense.parameters()]
    ours, plain = fused.gelu(hidden, dense), F.gelu(dense(hidden))
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    for mine, its in zip(gradients(ours, wanted), gradients(plain, wanted), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


def test_what_does_not_learn_gets_no_gradient() -> None:
    dense, norm = part(8, 16)
    dense.weight.requires_grad_(False)
    ended = fused.dropout_add_norm(torch.randn(3, 8), dense, torch.randn(3, 16), norm, dropout=0.0)
    ended.sum().backward()
    assert dense.weight.grad is None
    assert dense.bias.grad is not None


def test_the_kernels_are_tried_before_they_are_used() -> None:
    random = torch.get_rng_state()
    assert fused._computes_right(CPU)
    with torch.inference_mode():
        assert fused._computes_right(CPU)
    assert_same_bits(torch.get_rng_state(), random, "stored")


@pytest.mark.parametrize("frozen", [(), (1,), (0, 1, 2)])
def test_what_layers_make_of_the_same_states(frozen: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    made = [nn.Linear(12, width) for width in (8, 8, 5)]
    for number in frozen:
        made[number].weight.requires_grad_(False)
    hidden = torch.randn(2, 7, 12, requires_grad=True)
    wanted = [hidden, *(p for layer in made for p in layer.parameters() if p.requires_grad)]
    ours, plain = fused.fused_linear(hidden, made), [layer(hidden) for layer in made]
    with torch.no_grad():
        alone = fused.fused_linear(hidden, made)
    for mine, same, its in zip(ours, alone, plain, strict=True):
        torch.testing.assert_close(mine, its)
        torch.testing.assert_close(same, its)
    answers = [gradients(torch.cat(each, -1), wanted) for each in (ours, plain)]
    for mine, its in zip(*answers, strict=True):
        torch.testing.assert_close(mine, its)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_decoder": True},
        {"hidden_act": "gelu_new"},
        {"position_embedding_type": "relative_key"},
    ],
    ids=["plain", "decoder", "another activation", "relative"],
)
@pytest.mark.parametrize("only_first", [False, True])
def test_a_model_learns_the_same(
    options: dict[str, Any], only_first: bool, monkeypatch: pytest.MonkeyPatch, everywhere: None
) -> None:
    torch.manual_seed(0)
    sizes = {**tiny.SIZES, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    model = BertModel(BertConfig(**sizes, **tiny.STILL, **options)).train()
    ids = torch.randint(5, 50, (2, 5))
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    used = set()
    for name in ("dropout_add_norm", "gelu", "fused_linear"):
        monkeypatch.setattr(fused, name, noted(getattr(fused, name), used))
    learnt = []
    for _ in range(2):
        hidden = model(ids, mask, only_first=only_first).last_hidden_state
        wanted = [p for name, p in model.named_parameters() if "pooler" not in name]
        grads = torch.autograd.grad(hidden.sin().sum(), wanted, allow_unused=True)
        learnt.append([hidden, *(grad for grad in grads if grad is not None)])
        monkeypatch.setattr(fused, "_DEVICE_TYPE", "cuda")
    assert used == {"dropout_add_norm", "fused_linear"} | (
        {"gelu"} if "hidden_act" not in options else set()
    )
    for ours, plain in zip(*learnt, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-5)


def noted(function: Callable[..., Any], used: set[str]) -> Callable[..., Any]:
    """Return a function that records its name when called."""

    def call(*arguments: Any, **options: Any) -> Any:
        used.add(function.__name__)
        return function(*arguments, **options)

    return call


def test_where_the_kernels_are_not_used(everywhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    dense, norm = part(8, 16)
    inner, hidden = torch.randn(3, 8), torch.randn(3, 16)
    assert fused.supports_dropout_add_norm(dense, norm, inner, hidden)
    assert not fused.supports_dropout_add_norm(nn.Linear(8, 16, bias=False), norm, inner, hidden)
    assert not fused.supports_dropout_add_norm(dense, nn.LayerNorm(16, bias=False), inner, hidden)
    assert not fused.supports_dropout_add_norm(dense, norm.double(), inner, hidden)
    dense, norm = part(8, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fused.supports_dropout_add_norm(dense, norm, inner, hidden)
    assert fused.supports_gelu(dense, F.gelu, inner)
    assert not fused.supports_gelu(dense, F.relu, inner)
    with torch.no_grad():
        assert not fused.supports_gelu(dense, F.gelu, inner)
    monkeypatch.setattr(fused, "_MIN_SIZE_TRAINING", 100)
    assert not fused.supports_dropout_add_norm(dense, norm, inner, hidden)
    with torch.no_grad():  # what does not learn costs the host less
        assert fused.supports_dropout_add_norm(dense, norm, inner, hidden)
        monkeypatch.setattr(fused, "_MIN_SIZE", 100)
        assert not fused.supports_dropout_add_norm(dense, norm, inner, hidden)
        monkeypatch.setattr(fused, "_MIN_SIZE", 0)
    monkeypatch.setattr(fused, "why_no_kernels", lambda device: "no C compiler")
    with torch.no_grad():
        assert not fused.supports_dropout_add_norm(dense, norm, inner, hidden)


def test_layers_with_hooks_or_their_own_forward_are_called(everywhere: None) -> None:
    class Adapter(nn.Linear):
        pass

    dense, norm = part(8, 16)
    inner, hidden = torch.randn(3, 8), torch.randn(3, 16)
    layers: list[Any] = [nn.Identity(), Adapter(8, 16), dense]
    for layer in layers:
        if layer is dense:
            assert fused.supports_fused_linear([layer], inner)
            layer.register_forward_pre_hook(lambda *call: None)
        assert not fused.supports_dropout_add_norm(layer, norm, inner, hidden)
        assert not fused.supports_gelu(layer, F.gelu, inner)
        assert not fused.supports_fused_linear([layer], inner)


def test_each_draw_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Generator:
        seed, offset = 3, 8

        def initial_seed(self) -> int:
            return self.seed

        def get_offset(self) -> int:
            return self.offset

        def set_offset(self, offset: int) -> None:
            self.offset = offset

    generator = Generator()
    monkeypatch.setattr(torch.cuda, "default_generators", (None, generator))
    device = torch.device("cuda", 1)
    draws = [fused._draw(device, 0.1) for _ in range(50)]
    assert generator.offset == 8 + 50 * 4
    generator.seed, generator.offset = 4, 8
    draws.append(fused._draw(device, 0.1))
    assert len({key for key, _, _ in draws}) == 51
    assert all(2**62 <= key < 2**63 for key, _, _ in draws)
    assert all(least / 2**31 == pytest.approx(0.1, abs=1e-9) for _, least, _ in draws)
    assert all(scale == pytest.approx(1 / 0.9) for _, _, scale in draws)
    assert fused._draw(device, 0.0)[1] == 0
    assert generator.offset == 12


def test_keys_that_are_kept_do_not_keep_the_queries(everywhere: None) -> None:
    model = BertModel(BertConfig(**tiny.SIZES, **tiny.STILL, is_decoder=True)).eval()
    with torch.no_grad():
        cache = model(torch.randint(5, 50, (2, 5)), use_cache=True).past_key_values
    for block in cache.blocks:
        for part in block.self_attention:
            assert part.untyped_storage().nbytes() == part.numel() * part.element_size()

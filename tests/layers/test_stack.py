"""Stacks of blocks: what a stack returns, and the options that each block receives."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.layers.block import Block, Context
from heedful.layers.dropout import Dropout
from heedful.layers.residual import BlockOptions
from heedful.layers.stack import Stack

B, S, E, H, L, D = 2, 5, 4, 3, 3, 12


def _stack(*, is_pre_norm: bool = False) -> Stack:
    torch.manual_seed(0)
    options = BlockOptions(
        width=D,
        head_width=4,
        inner_width=20,
        activation="gelu",
        dropout=0.1,
        attention_dropout=0.1,
        is_pre_norm=is_pre_norm,
    )
    blocks = (Block(options, heads=range(H), cross_heads=range(H)) for _ in range(L))
    return Stack(blocks, nn.LayerNorm(D) if is_pre_norm else None).double()


def _inputs() -> tuple[Tensor, Context]:
    torch.manual_seed(1)
    hidden = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    return hidden, Context(encoder_hidden_states=torch.randn(B, E, D, dtype=torch.float64))


@pytest.mark.parametrize("norm_before", [False, True])
def test_states(norm_before: bool) -> None:
    stack = _stack(is_pre_norm=norm_before).eval()
    hidden, context = _inputs()
    states = stack(hidden, context, need_states=True).states
    assert len(states) == L + 1
    assert states[0] is hidden
    for block, before, after in zip(stack.blocks[:-1], states, states[1:], strict=False):
        torch.testing.assert_close(block(before, context).hidden, after)
    last = stack.blocks[-1](states[-2], context).hidden
    expected = stack.layer_norm(last) if stack.layer_norm is not None else last
    torch.testing.assert_close(states[-1], expected)
    alone = stack(hidden, context)
    assert len(alone.states) == 1
    torch.testing.assert_close(alone.hidden, states[-1])


def test_weights_of_some_blocks() -> None:
    stack = _stack().eval()
    every, some = (stack(*_inputs(), weights_of=which) for which in (range(L), (1,)))
    assert len(every.attentions) == len(every.cross_attentions) == L
    torch.testing.assert_close(some.attentions, every.attentions[1:2])
    torch.testing.assert_close(some.cross_attentions, every.cross_attentions[1:2])
    nothing = stack(*_inputs())
    assert nothing.attentions is nothing.cross_attentions is nothing.cache is None
    assert some.kernels == ("fused", "fused", "plain", "plain", "fused", "fused")


def test_each_block_has_masks_of_its_own() -> None:
    stack = _stack().eval()
    hidden, context = _inputs()
    torch.manual_seed(2)
    mask, cross_mask = torch.rand(2, L, H, dtype=torch.float64)
    output = stack(hidden, context, head_mask=mask, cross_head_mask=cross_mask)
    expected = hidden
    for block, row, cross_row in zip(stack.blocks, mask, cross_mask, strict=True):
        expected = block(expected, context, head_mask=row, cross_head_mask=cross_row).hidden
    torch.testing.assert_close(output.hidden, expected)
    other = stack(hidden, context, head_mask=cross_mask, cross_head_mask=mask)
    assert not torch.allclose(other.hidden, expected)


@pytest.mark.parametrize("norm_before", [False, True])
def test_recomputing_changes_nothing(norm_before: bool) -> None:
    stack = _stack(is_pre_norm=norm_before).train()
    mask = torch.rand(L, H, dtype=torch.float64, requires_grad=True)
    results = []
    for recompute in (False, True):
        hidden, context = _inputs()
        torch.manual_seed(3)
        output = stack(hidden, context, head_mask=mask, recompute=recompute, need_states=True)
        inputs = (hidden, mask, *stack.parameters())
        loss = sum(state.sin().sum() for state in output.states)
        results.append([*output.states, *torch.autograd.grad(loss, inputs, allow_unused=True)])
    for one, other in zip(*results, strict=True):
        if one is not None or other is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("norm_before", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_recomputing_with_only_the_last_states_wanted(norm_before: bool, dropout: float) -> None:
    stack = _stack(is_pre_norm=norm_before).train()
    for part in stack.modules():
        if isinstance(part, Dropout):
            part.p = dropout
    results = []
    for recompute in (False, True):
        hidden, context = _inputs()
        torch.manual_seed(3)
        output = stack(hidden, context, recompute=recompute)
        inputs = (hidden, *stack.parameters())
        gradients = torch.autograd.grad(output.hidden.sin().sum(), inputs, allow_unused=True)
        results.append([output.hidden, *gradients])
    for one, other in zip(*results, strict=True):
        if one is not None or other is not None:
            torch.testing.assert_close(one, other)


class _Products(TorchDispatchMode):
    """Counts the products with a bias that are computed, without abandoned ones."""

    count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += function is torch.ops.aten.addmm.default
        return function(*args, **(kwargs or {}))


def _products_of_backward(stack: Stack, *, recompute: bool) -> int:
    hidden, context = _inputs()
    loss = stack(hidden, context, recompute=recompute).hidden.sum()
    with _Products() as products:
        loss.backward()
    return products.count


@pytest.mark.parametrize("norm_before", [False, True])
def test_the_last_product_of_a_block_is_not_computed_again(norm_before: bool) -> None:
    stack = _stack(is_pre_norm=norm_before).train()
    linear = sum(isinstance(part, nn.Linear) for part in stack.modules())
    again = _products_of_backward(stack, recompute=True)
    again -= _products_of_backward(stack, recompute=False)
    assert again == linear - len(stack.distinct)


def test_only_the_first_token() -> None:
    stack = _stack(is_pre_norm=True).eval()
    hidden, context = _inputs()
    whole = stack(hidden, context).hidden
    assert stack(hidden, context, only_first=True).hidden.shape == (B, 1, D)
    torch.testing.assert_close(stack(hidden, context, only_first=True).hidden, whole[:, :1])


def test_what_is_kept_goes_on_where_it_ended() -> None:
    stack = _stack().eval()
    hidden, context = _inputs()
    past = torch.ones(S, S, dtype=torch.bool).tril()[None, None]
    whole = stack(
        hidden, Context(mask=past, encoder_hidden_states=context.encoder_hidden_states)
    ).hidden
    begun = Context(
        mask=past[..., :3, :3], encoder_hidden_states=context.encoder_hidden_states, need_cache=True
    )
    cache = stack(hidden[:, :3], begun).cache
    assert cache is not None
    assert cache.length == 3
    # The encoder's keys and values are kept, too.
    rest = stack(hidden[:, 3:], Context(mask=past[..., 3:, :]), past=cache.blocks)
    torch.testing.assert_close(rest.hidden, whole[:, 3:])
    crossed = stack.cross_keys_and_values(context.encoder_hidden_states)
    for block, memory in zip(cache.blocks, crossed, strict=True):
        assert block.cross_attention is not None
        torch.testing.assert_close(block.cross_attention.key, memory.key)
        torch.testing.assert_close(block.cross_attention.value, memory.value)

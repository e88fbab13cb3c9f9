"""One block: dropout, what it keeps, chunked computation, and where it normalises."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import nn

from heedful.layers.block import Block, Context
from heedful.layers.embeddings import Embeddings
from heedful.layers.residual import BlockOptions, Residual

OPTIONS = BlockOptions(
    width=12,
    head_width=4,
    inner_width=20,
    activation="gelu",
    dropout=0.1,
    attention_dropout=0.1,
)


def test_a_part_drops_what_it_adds_and_never_the_residual() -> None:
    part = Residual(3, replace(OPTIONS, width=1000, dropout=0.4))
    part.LayerNorm = nn.Identity()  # type: ignore[assignment]
    inner, hidden = torch.ones(1, 1, 3), torch.randn(1, 1, 1000)
    added = part(inner, hidden) - hidden
    dropped = added.abs() < 1e-6
    assert 300 < dropped.sum() < 500
    torch.testing.assert_close(added[~dropped], (part.dense(inner) / 0.6)[~dropped])
    part.eval()
    torch.testing.assert_close(part(inner, hidden) - hidden, part.dense(inner))


def test_embeddings_are_dropped_after_their_normalisation() -> None:
    embeddings = Embeddings(
        vocab_size=9,
        num_types=2,
        position_embeddings=nn.Embedding(4, 1000),
        width=1000,
        pad_id=0,
        eps=1e-5,
        dropout=0.4,
    )
    vectors = embeddings(torch.tensor([[1, 2, 3]]), None, None)
    assert 1000 < vectors.eq(0).sum() < 1400
    assert embeddings.eval()(torch.tensor([[1, 2, 3]]), None, None).ne(0).all()


def _block(**changed: Any) -> Block:
    torch.manual_seed(0)
    cross = changed.pop("cross_heads", None)
    return Block(replace(OPTIONS, **changed), heads=range(3), cross_heads=cross)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_block_keeps_the_shape(need_weights: bool) -> None:
    output = _block()(torch.randn(2, 5, 12), Context(), need_weights=need_weights)
    assert output.hidden.shape == (2, 5, 12)
    if need_weights:
        assert output.weights.shape == (2, 3, 5, 5)
    else:
        assert output.weights is None
    assert output.cross_weights is output.cache is None


def test_a_cache_is_kept_only_if_asked_for() -> None:
    hidden = torch.randn(2, 5, 12)
    cache = _block()(hidden, Context(need_cache=True)).cache
    assert cache is not None
    assert cache.self_attention.key.shape == cache.self_attention.value.shape == (2, 3, 5, 4)
    assert cache.cross_attention is None


@pytest.mark.parametrize("norm_before", [False, True])
@pytest.mark.parametrize("chunk", [1, 2, 5, 9])
def test_chunks_go_through_the_feed_forward_part_alone(chunk: int, norm_before: bool) -> None:
    block = _block(chunk_size=chunk, is_pre_norm=norm_before).eval()
    whole = _block(is_pre_norm=norm_before).eval()
    lengths: list[int] = []
    block.intermediate.register_forward_hook(lambda _, args, __: lengths.append(args[0].shape[1]))
    hidden = torch.randn(2, 5, 12)
    torch.testing.assert_close(block(hidden, Context()).hidden, whole(hidden, Context()).hidden)
    assert lengths == {1: [1] * 5, 2: [2, 2, 1], 5: [5], 9: [5]}[chunk]


def test_a_norm_before_leaves_the_residual_untouched() -> None:
    block = _block(is_pre_norm=True, cross_heads=range(3)).eval()
    parts = (block.attention.output, block.crossattention.output, block.output)
    for part in parts:
        nn.init.zeros_(part.dense.weight)
        nn.init.zeros_(part.dense.bias)
        nn.init.normal_(part.LayerNorm.weight)
    hidden, context = torch.randn(2, 5, 12), Context(encoder_hidden_states=torch.randn(2, 4, 12))
    assert_same_bits(block(hidden, context).hidden, hidden, "one operation")
    after = _block(cross_heads=range(3)).eval()
    after.load_state_dict(block.state_dict())
    expected = hidden
    for part in parts:
        expected = part.LayerNorm(expected)
    torch.testing.assert_close(after(hidden, context).hidden, expected)


def test_activations_are_dropped_in_training_alone() -> None:
    inner = _block(activation_dropout=0.4).intermediate
    hidden = torch.randn(10, 10, 12)
    assert 600 < inner(hidden).eq(0).sum() < 1000
    assert inner.eval()(hidden).ne(0).all()

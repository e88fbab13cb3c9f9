import pytest
import torch
from torch import nn

from heedful.layers.blocks import AddNorm, Block, Context
from heedful.layers.embeddings import Embeddings


def test_a_half_drops_what_it_adds_and_never_the_residual() -> None:
    half = AddNorm(inner_width=3, width=1000, eps=1e-5, dropout=0.4)
    half.LayerNorm = nn.Identity()  # type: ignore[assignment]
    inner, residual = torch.ones(1, 1, 3), torch.randn(1, 1, 1000)
    added = half(inner, residual) - residual
    dropped = added.abs() < 1e-6
    assert 300 < dropped.sum() < 500
    torch.testing.assert_close(added[~dropped], (half.dense(inner) / 0.6)[~dropped])
    half.eval()
    torch.testing.assert_close(half(inner, residual) - residual, half.dense(inner))


def test_embeddings_are_dropped_after_their_normalisation() -> None:
    embeddings = Embeddings(
        vocab_size=9, num_types=2, num_positions=4, width=1000, pad_id=0, eps=1e-5, dropout=0.4
    )
    vectors = embeddings(torch.tensor([[1, 2, 3]]), None, None)
    assert 1000 < vectors.eq(0).sum() < 1400
    assert embeddings.eval()(torch.tensor([[1, 2, 3]]), None, None).ne(0).all()


def _block(chunk: int = 0) -> Block:
    torch.manual_seed(0)
    return Block(
        width=12,
        num_heads=3,
        inner_width=20,
        activation="gelu",
        eps=1e-5,
        attention_dropout=0.1,
        dropout=0.1,
        chunk=chunk,
    )


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_block_keeps_the_shape(need_weights: bool) -> None:
    output = _block()(torch.randn(2, 5, 12), Context(need_weights=need_weights))
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
    assert cache.own.key.shape == cache.own.value.shape == (2, 3, 5, 4)
    assert cache.cross is None


@pytest.mark.parametrize("chunk", [1, 2, 5, 9])
def test_chunks_go_through_the_feed_forward_part_alone(chunk: int) -> None:
    block, whole = _block(chunk).eval(), _block().eval()
    lengths: list[int] = []
    block.intermediate.register_forward_hook(lambda _, given, __: lengths.append(given[0].shape[1]))
    hidden = torch.randn(2, 5, 12)
    torch.testing.assert_close(block(hidden, Context()).hidden, whole(hidden, Context()).hidden)
    assert lengths == {1: [1] * 5, 2: [2, 2, 1], 5: [5], 9: [5]}[chunk]

import pytest
import torch
from torch import nn

from heedful.layers.blocks import AddNorm, Block
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


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_block_keeps_the_shape(need_weights: bool) -> None:
    block = Block(
        width=12,
        num_heads=3,
        inner_width=20,
        activation="gelu",
        eps=1e-5,
        attention_dropout=0.1,
        dropout=0.1,
    )
    hidden, weights = block(torch.randn(2, 5, 12), None, need_weights)
    assert hidden.shape == (2, 5, 12)
    assert (weights.shape == (2, 3, 5, 5)) if need_weights else (weights is None)

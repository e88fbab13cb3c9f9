"""Block-sparse attention equals full attention with the equivalent mask."""

from collections.abc import Sequence

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.layers import blocksparse, blockwise
from heedful.layers.attention import attend
from heedful.layers.blocksparse import BlockSparse, Texts, texts_of

H, K, BLOCK = 3, 4, 2
SPARSE = BlockSparse(block_size=BLOCK, num_random=1, num_heads=H, positions=64, number=1)
"""Reads up to 14 tokens as a whole."""
ROWS: dict[str, Sequence[Sequence[int]]] = {
    "one length": [[20], [20]],
    "part of a block": [[19], [20], [19]],
    "whole and by blocks": [[14], [15], [31], [3]],
    "several in a row": [[16, 3, 17], [36], [15, 15]],
}
"""The lengths of the texts of each row."""


def _mask(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return a mask between the texts of a row: (B, 1, S, S), or (B, 1, 1, S) for one text each."""
    size = max(map(sum, rows))
    real = torch.arange(size) < torch.tensor([sum(row) for row in rows])[:, None]
    if max(map(len, rows)) == 1:
        return real[:, None, None]
    numbers = torch.full(real.shape, -1)
    for line, row in zip(numbers, rows, strict=True):
        line[: sum(row)] = torch.tensor([n for n, length in enumerate(row) for _ in range(length)])
        line[sum(row) :] = len(row) - 1  # padding sees the last text, as it does in pre-training
    return (numbers[:, None, :, None] == numbers[:, None, None]) & real[:, None, None]


def _states(mask: Tensor, heads: int = H) -> list[Tensor]:
    torch.manual_seed(0)
    shape = (len(mask), heads, mask.shape[3], K)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def _real(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return True for tokens, False for padding. Shape (B, S)."""
    return torch.arange(max(map(sum, rows))) < torch.tensor([sum(row) for row in rows])[:, None]


def _expected(
    states: Sequence[Tensor], mask: Tensor, texts: Texts, heads: Sequence[int], training: bool
) -> Tensor:
    """Compute each text alone, each of its blocks as the pattern says."""
    query, key, value = states
    mixed = torch.zeros_like(query)
    for row, start, length in texts.each:
        place = slice(start, start + length)
        one = [x[row : row + 1, :, place] for x in (query, key, value)]
        bias = None if length <= SPARSE.max_full_length else _bias(length, heads, training)
        real = mask[row, 0, start if mask.shape[2] > 1 else 0, place]
        mixed[row, :, place] = attend(*one, mask=real[None, None, None], bias=bias).values[0]
    return mixed


def _bias(length: int, heads: Sequence[int], training: bool) -> Tensor:
    """Return the logarithm of the number of times that each token is read, block by block."""
    blocks = -(-length // BLOCK)
    counts = torch.zeros(len(heads), blocks, blocks, dtype=torch.float64)
    drawn = SPARSE.drawn(blocks)
    for place, head in enumerate(heads):
        for row in range(blocks):
            if row in (0, blocks - 1):
                counts[place, row] = 1
                continue
            read = {0, blocks - 1, row - 1, row, row + 1}
            counts[place, row, list(read)] = 1
            for other in drawn[head, row - 1] if training else [0] * SPARSE.num_random:
                counts[place, row, other] += 1
    by_token = counts.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
    return by_token[None, :, :length, :length].log()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("heads", [(0, 1, 2), (0, 2)])
@pytest.mark.parametrize("rows", ROWS.values(), ids=list(ROWS))
def test_values_and_gradients_are_those_of_the_mask(
    rows: Sequence[Sequence[int]], heads: Sequence[int], training: bool
) -> None:
    mask = _mask(rows)
    states = _states(mask, len(heads))
    texts = texts_of(mask, states[0][:, 0])
    expected = _expected(states, mask, texts, heads, training)[
        _real(rows)[:, None].expand(-1, len(heads), -1)
    ]
    right = torch.autograd.grad(expected.square().sum(), states)
    for need_weights in (False, True):
        mixed = SPARSE.attend(
            *states,
            heads=heads,
            texts=texts,
            mask=mask,
            dropout=0.0,
            training=training,
            need_weights=need_weights,
        )
        found = mixed.values[_real(rows)[:, None].expand(-1, len(heads), -1)]
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), states), right)
        assert mixed.kernel == ("plain" if need_weights else "blocks")
        if mixed.weights is not None:
            torch.testing.assert_close(mixed.weights @ states[2], mixed.values)


def test_hidden_tokens_are_not_read_and_those_that_read_nothing_get_zeros() -> None:
    mask = torch.ones(2, 1, 1, 24, dtype=torch.bool)
    mask[0, ..., :BLOCK] = False  # of the first block
    mask[0, ..., 9] = False
    mask[1, ..., :-BLOCK] = False  # all but the last block
    mask[1, ..., -BLOCK:] = False
    mask[1, ..., 22] = True
    states = _states(mask)
    texts = texts_of(mask, states[0][:, 0])
    assert [text.length for text in texts.each] == [24, 23]
    found, right = (
        SPARSE.attend(
            *states,
            heads=range(H),
            texts=texts,
            mask=mask,
            dropout=0.0,
            training=True,
            need_weights=need_weights,
        ).values[:, :, :23]
        for need_weights in (False, True)
    )
    torch.testing.assert_close(found, right)
    gradients = [torch.autograd.grad(one.square().sum(), states) for one in (found, right)]
    torch.testing.assert_close(*gradients)


def test_parts_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = _mask([[40], [39]])
    states = _states(mask)
    drawn = torch.from_numpy(SPARSE.drawn(20))
    gathered = (5 + drawn.shape[2]) * states[0][0, 0, :BLOCK].nbytes  # for one block
    results = []
    for together in (100, 3):
        monkeypatch.setattr(blockwise, "_GATHERED", together * gathered)
        mixed = blockwise.attend_by_blocks(*states, size=BLOCK, mask=mask, drawn=drawn)
        results.append((mixed, *torch.autograd.grad(mixed[:, :, :39].square().sum(), states)))
    torch.testing.assert_close(*results)


def test_texts_of_one_length_need_no_padding() -> None:
    states = [x[:, :, :37] for x in _states(_mask([[40], [40]]))]
    mask = torch.ones(2, 1, 1, 37, dtype=torch.bool)
    right = SPARSE.attend(
        *states,
        heads=range(H),
        texts=texts_of(mask, states[0][:, 0]),
        mask=mask,
        dropout=0.0,
        training=False,
        need_weights=True,
    ).values
    torch.testing.assert_close(SPARSE.attend_alone(*states), right)


def test_draws_are_the_same_each_time_and_other_in_each_block() -> None:
    one, again = (
        BlockSparse(block_size=64, num_random=3, num_heads=2, positions=4096) for _ in "ab"
    )
    other = BlockSparse(block_size=64, num_random=3, num_heads=2, positions=4096, number=1)
    for blocks in (12, 16, 40, 64):
        drawn = torch.from_numpy(one.drawn(blocks))
        blocksparse._drawn.cache_clear()
        assert_same_bits(drawn, torch.from_numpy(again.drawn(blocks)), "whole numbers")
        assert drawn.shape == (2, blocks - 2, 3)
        assert not (drawn == torch.from_numpy(other.drawn(blocks))).all()
        assert all(len(set(row)) == 3 for head in drawn.tolist() for row in head)


def test_masks_that_keep_no_texts_apart_make_one_text_of_a_row() -> None:
    torch.manual_seed(0)
    mask = torch.rand(2, 1, 20, 20) < 0.5
    states = _states(mask)
    texts = texts_of(mask, states[0][:, 0])
    assert [tuple(text) for text in texts.each] == [(0, 0, 20), (1, 0, 20)]
    assert not texts.block_diagonal
    mixed = SPARSE.attend(
        *states,
        heads=range(H),
        texts=texts,
        mask=mask,
        dropout=0.0,
        training=True,
        need_weights=False,
    ).values
    bias = _bias(20, range(H), training=True)
    right = attend(*states, mask=mask & bias.isfinite(), bias=bias.clamp(min=0)).values
    torch.testing.assert_close(mixed, right)

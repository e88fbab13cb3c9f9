import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.batches.collate import collate
from heedful.batches.examples import Example


def example(ids: list[int], split: int | None = None, labels: tuple[float, ...] = ()) -> Example:
    return Example(ids=np.array(ids, dtype=np.int32), split=split, labels=labels)


def test_singles_of_one_length_need_neither_mask_nor_types() -> None:
    batch = collate([example([5, 6]), example([7, 8])], pad_id=0)
    assert batch.input_ids.tolist() == [[5, 6], [7, 8]]
    assert batch.input_ids.dtype == torch.int64
    assert batch.attention_mask is None
    assert batch.token_type_ids is None
    assert batch.labels is None
    assert (batch.tokens, batch.items) == (4, 2)


def test_padding_and_pairs() -> None:
    batch = collate([example([5, 6, 7], split=1), example([8]), example([9, 4], split=2)], pad_id=3)
    assert batch.input_ids.tolist() == [[5, 6, 7], [8, 3, 3], [9, 4, 3]]
    assert batch.attention_mask is not None
    assert batch.attention_mask.dtype == torch.bool
    assert batch.attention_mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert batch.token_type_ids is not None
    assert batch.token_type_ids.dtype == torch.int64
    assert batch.token_type_ids.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert batch.tokens == 6


def test_labels() -> None:
    one = [example([1], labels=(2,)), example([1], labels=(0,))]
    classes = collate(one, pad_id=0, labels="class").labels
    values = collate(one, pad_id=0, labels="value").labels
    assert classes is not None
    assert values is not None
    assert (classes.tolist(), classes.dtype) == ([2, 0], torch.int64)
    assert (values.tolist(), values.dtype) == ([2.0, 0.0], torch.float32)
    several = [example([1], labels=(2, 0)), example([1]), example([1], labels=(1,))]
    hot = collate(several, pad_id=0, labels="classes", num_labels=3).labels
    assert hot is not None
    assert (hot.tolist(), hot.dtype) == ([[1, 0, 1], [0, 0, 0], [0, 1, 0]], torch.float32)
    with pytest.raises(ValueError, match="unpack"):
        collate(several, pad_id=0, labels="class")


def test_a_batch_moves_whole() -> None:
    batch = collate([example([1, 2], 1, (1,)), example([3])], pad_id=0, labels=None)
    moved = batch.to(torch.device("meta"))
    assert moved.input_ids.device.type == "meta"
    assert moved.attention_mask is not None
    assert moved.attention_mask.device.type == "meta"
    assert moved.token_type_ids is not None
    assert moved.token_type_ids.device.type == "meta"
    assert moved.labels is None
    assert moved.tokens == 3


@given(
    st.lists(
        st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=9).flatmap(
            lambda ids: st.tuples(st.just(ids), st.none() | st.integers(0, len(ids)))
        ),
        min_size=1,
        max_size=9,
    )
)
def test_nothing_is_lost(items: list[tuple[list[int], int | None]]) -> None:
    batch = collate([example(ids, split) for ids, split in items], pad_id=0)
    width = max(len(ids) for ids, _ in items)
    mask = batch.attention_mask
    types = batch.token_type_ids
    for row, (ids, split) in enumerate(items):
        assert batch.input_ids[row].tolist() == ids + [0] * (width - len(ids))
        if mask is not None:
            assert mask[row].tolist() == [place < len(ids) for place in range(width)]
        if types is not None:
            second = len(ids) if split is None else split
            assert types[row].tolist() == [int(second <= at < len(ids)) for at in range(width)]
    assert (mask is None) == (len({len(ids) for ids, _ in items}) == 1)
    assert (types is None) == all(split is None for _, split in items)

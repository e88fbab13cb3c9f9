import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import heedful
from heedful.batches.collate import class_labels, collate, multi_hot, regression_targets
from heedful.batches.examples import Example


def example(ids: list[int], split: int | None = None, labels: tuple[float, ...] = ()) -> Example:
    return Example(ids=np.array(ids, dtype=np.int32), split=split, labels=labels)


def test_singles_of_one_length_need_neither_mask_nor_types() -> None:
    batch = collate([example([5, 6]), example([7, 8])], pad_id=0)
    assert batch.inputs["input_ids"].tolist() == [[5, 6], [7, 8]]
    assert batch.inputs["input_ids"].dtype == torch.int64
    assert batch.inputs.keys() == {"input_ids"}
    assert batch.targets == {}
    assert (batch.num_tokens, batch.num_positions, batch.num_examples) == (4, 4, 2)


def test_padding_and_pairs() -> None:
    batch = collate([example([5, 6, 7], split=1), example([8]), example([9, 4], split=2)], pad_id=3)
    mask, types = batch.inputs["attention_mask"], batch.inputs["token_type_ids"]
    assert batch.inputs["input_ids"].tolist() == [[5, 6, 7], [8, 3, 3], [9, 4, 3]]
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert types.dtype == torch.int64
    assert types.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert (batch.num_tokens, batch.num_positions) == (6, 9)


def test_the_last_token_may_have_a_type_of_its_own() -> None:
    examples = [
        Example(ids=np.array([7, 8, 4, 3])),
        Example(ids=np.array([7, 4, 8, 9, 4, 3]), split=2),
    ]
    batch = collate(examples, pad_id=5, closing_type=2)
    assert batch.inputs["token_type_ids"].tolist() == [[0, 0, 0, 2, 0, 0], [0, 0, 1, 1, 1, 2]]
    alone = collate(examples[:1], pad_id=5, closing_type=2)
    assert alone.inputs["token_type_ids"].tolist() == [[0, 0, 0, 2]]


def test_labels() -> None:
    one = [example([1], labels=(2,)), example([1], labels=(0,))]
    classes, estimates = class_labels(one), regression_targets(one)
    assert (classes.tolist(), classes.dtype) == ([2, 0], torch.int64)
    assert (estimates.tolist(), estimates.dtype) == ([2.0, 0.0], torch.float32)
    several = [example([1], labels=(2, 0)), example([1]), example([1], labels=(1,))]
    hot = multi_hot(several, 3)
    assert (hot.tolist(), hot.dtype) == ([[1, 0, 1], [0, 0, 0], [0, 1, 0]], torch.float32)
    with pytest.raises(ValueError, match="unpack"):
        class_labels(several)


def test_a_batch_moves_whole() -> None:
    examples = [example([1, 2], 1, (1,)), example([3], labels=(0,))]
    batch = collate(examples, pad_id=0, targets={"labels": class_labels(examples)})
    moved = batch.to(torch.device("meta"))
    tensors = [*moved.inputs.values(), *moved.targets.values()]
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 4
    assert moved.num_tokens == 3


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
    mask = batch.inputs.get("attention_mask")
    types = batch.inputs.get("token_type_ids")
    for row, (ids, split) in enumerate(items):
        assert batch.inputs["input_ids"][row].tolist() == ids + [0] * (width - len(ids))
        if mask is not None:
            assert mask[row].tolist() == [place < len(ids) for place in range(width)]
        if types is not None:
            second = len(ids) if split is None else split
            assert types[row].tolist() == [int(second <= at < len(ids)) for at in range(width)]
    assert (mask is None) == (len({len(ids) for ids, _ in items}) == 1)
    assert (types is None) == all(split is None for _, split in items)


def test_every_task_says_which_type_the_last_token_has() -> None:
    """All except tasks whose items have no such token: translations and images."""
    calls = [
        (path.name, {keyword.arg for keyword in node.keywords})
        for path in (Path(heedful.__file__).parent / "tasks").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "collate"
    ]
    assert len(calls) > 8
    for name, keywords in calls:
        assert "closing_type" in keywords or name == "translate.py", name

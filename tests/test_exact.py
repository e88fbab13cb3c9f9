"""The helpers that compare values notice the differences that they are for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.alike import assert_same_scores, assert_same_texts
from tests.exact import assert_same_bits

from heedful.decoding.search import Hypothesis

TENSOR = torch.tensor([0.1, 0.2])
NEXT = torch.nextafter(TENSOR, torch.ones(2))


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (NEXT, TENSOR),
        (TENSOR.double(), TENSOR),
        (TENSOR[:1], TENSOR),
        (NEXT.numpy(), TENSOR.numpy()),
        ({"a": NEXT}, {"a": TENSOR}),
        ({"a": TENSOR}, {"b": TENSOR}),
        (0.1 + 0.2, 0.3),
    ],
)
def test_a_difference_of_the_last_bit_is_noticed(found: Any, right: Any) -> None:
    assert_same_bits(right, right, "stored")
    with pytest.raises(AssertionError):
        assert_same_bits(found, right, "stored")


@pytest.mark.parametrize("right", [TENSOR, TENSOR.numpy(), {"a": TENSOR}])
def test_fractions_are_no_whole_numbers(right: Any) -> None:
    for whole in (torch.tensor([True]), torch.arange(3), np.ones(2), {"a": torch.zeros(2)}):
        assert_same_bits(whole, whole, "whole numbers")
    with pytest.raises(AssertionError):
        assert_same_bits(right, right, "whole numbers")


def test_a_reason_is_one_of_those_that_there_are() -> None:
    with pytest.raises(AssertionError):
        assert_same_bits(TENSOR, TENSOR, "it passes")  # type: ignore[arg-type]


TEXT = Hypothesis(tokens=(1, 2), ended=True, log_probability=-1.5, score=-0.5)
SCORES = {"data": ["a"], "f1": 0.5, "answerable": {"f1": 0.25}}


@pytest.mark.parametrize(
    ("check", "right", "near", "others"),
    [
        (
            assert_same_texts,
            [[TEXT]],
            [[replace(TEXT, score=-0.5 - 1e-13)]],
            [
                [[replace(TEXT, score=-0.50001)]],
                [[replace(TEXT, log_probability=-1.50001)]],
                [[replace(TEXT, tokens=(1, 3))]],
                [[replace(TEXT, ended=False)]],
                [[TEXT, TEXT]],
                [],
            ],
        ),
        (
            assert_same_scores,
            SCORES,
            {**SCORES, "f1": 0.5 + 1e-13},
            [
                {**SCORES, "f1": 0.50001},
                {**SCORES, "answerable": {"f1": 0.25001}},
                {**SCORES, "data": ["b"]},
                {**SCORES, "more": 1},
            ],
        ),
    ],
    ids=["texts", "scores"],
)
def test_rounding_alone_is_let_pass(
    check: Callable[[Any, Any], None], right: Any, near: Any, others: list[Any]
) -> None:
    check(near, right)
    for other in others:
        with pytest.raises(AssertionError):
            check(other, right)

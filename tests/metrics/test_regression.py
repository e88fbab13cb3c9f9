"""Scores of numbers against values worked out by hand and by scipy's definition."""

import math

import pytest
import torch

from heedful.errors import UserError
from heedful.metrics import RegressionScores


def scores(estimates: list[float], targets: list[float], cut: int = 2) -> dict[str, float]:
    collected = RegressionScores()
    for start in range(0, len(estimates), cut):
        part = slice(start, start + cut)
        collected.update(torch.tensor(estimates[part]), torch.tensor(targets[part]))
    return collected.compute()


def test_scores_worked_out_by_hand() -> None:
    found = scores([1.0, 2.0, 4.0], [1.0, 3.0, 2.0])
    # Means 7/3 and 2; products of deviations sum to 1, squares to 14/3 and 2.
    assert found["pearson"] == pytest.approx(1 / math.sqrt(14 / 3 * 2))
    # Ranks 1 2 3 and 1 3 2. The library adds 1e-6 to what it divides by.
    assert found["spearman"] == pytest.approx(0.5, abs=2e-6)
    assert found["mse"] == pytest.approx((0 + 1 + 4) / 3)
    assert found["items"] == 3


def test_ties_share_their_rank() -> None:
    found = scores([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0])
    # Ranks of the targets: 1.5 1.5 3 4.
    assert found["spearman"] == pytest.approx(4.5 / math.sqrt(5 * 4.5), abs=2e-6)


@pytest.mark.parametrize(
    "flat", [([1.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [3.0, 3.0]), ([1.0], [2.0])]
)
def test_an_undefined_correlation_is_zero(flat: tuple[list[float], list[float]]) -> None:
    found = scores(*flat)
    assert found["pearson"] == found["spearman"] == 0.0


def test_nothing_and_no_number_are_errors() -> None:
    with pytest.raises(UserError, match="no items"):
        RegressionScores().compute()
    with pytest.raises(UserError, match="not a number"):
        scores([math.nan, 1.0], [1.0, 2.0])

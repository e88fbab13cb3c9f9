"""Scores of numbers against values computed by hand and by scipy's definition."""

import math

import numpy as np
import pytest
import torch

from heedful.errors import UserError
from heedful.metrics import RegressionScores, measures


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
    # Ranks 1 2 3 and 1 3 2.
    assert found["spearman"] == pytest.approx(0.5, abs=1e-15)
    assert found["mse"] == pytest.approx((0 + 1 + 4) / 3)
    assert found["items"] == 3


def test_ties_share_their_rank() -> None:
    found = scores([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0])
    # Ranks of the targets: 1.5 1.5 3 4.
    assert found["spearman"] == pytest.approx(4.5 / math.sqrt(5 * 4.5), abs=1e-15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [2, 3, 1000, 9973])
def test_the_same_order_is_one(size: int) -> None:
    numbers = [number / 7 for number in range(size)]
    opposite = [-number for number in numbers]
    assert scores(numbers, [x**3 for x in numbers])["spearman"] == pytest.approx(1, abs=1e-15)
    assert scores(numbers, opposite)["spearman"] == pytest.approx(-1, abs=1e-15)


def test_the_figure_is_that_of_resampled_items() -> None:
    draw = torch.Generator().manual_seed(0)
    estimates, targets = torch.randint(0, 400, (2, 3000), generator=draw).double()
    found = scores(estimates.tolist(), (targets + estimates).tolist(), cut=500)
    columns = torch.stack([estimates, targets + estimates], 1).numpy()
    for name, value in measures.correlations(columns, np.ones((1, 3000))).items():
        assert found[name] == pytest.approx(value.item(), abs=1e-12)


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

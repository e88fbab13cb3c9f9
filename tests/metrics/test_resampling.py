"""Intervals and tests, against values computed by hand or by other libraries."""

from math import comb

import numpy as np
import pytest
from sacrebleu.significance import PairedTest
from tests.metrics.test_measures import TEXTS

from heedful.metrics import measures
from heedful.metrics.generation import text_metrics, text_statistics
from heedful.metrics.resampling import differences, intervals, mcnemar, point_estimates


def test_the_interval_of_a_mean_is_near_the_normal_one() -> None:
    rng = np.random.default_rng(0)
    columns = (rng.random((400, 1)) < 0.8).astype(np.float64)
    mean = columns.mean()
    interval = intervals(measures.means("accuracy"), columns, seed=1)["accuracy"]
    half = 1.96 * np.sqrt(mean * (1 - mean) / 400)
    assert interval.score == pytest.approx(mean)
    assert interval.low == pytest.approx(mean - half, abs=0.006)
    assert interval.high == pytest.approx(mean + half, abs=0.006)


def test_intervals_hold_the_true_score_as_often_as_they_say() -> None:
    """The share among 300 samples of 80 items is binomial: 95 % with a deviation of 1.3 %."""
    rng = np.random.default_rng(2)
    measure, truth, held = measures.classes(2), 0.7, 0
    for seed in range(300):
        classes = rng.integers(0, 2, 80)
        right = rng.random(80) < truth
        columns = np.stack([classes, np.where(right, classes, 1 - classes), np.ones(80)], 1)
        interval = intervals(measure, columns.astype(float), seed=seed, resamples=300)["accuracy"]
        held += interval.low <= truth <= interval.high
    assert 0.90 < held / 300 < 0.98


def test_p_values_are_even_where_there_is_no_difference() -> None:
    """For two equally good runs, a p-value below 0.1 occurs about one time in ten."""
    rng = np.random.default_rng(3)
    measure, small = measures.means("accuracy"), 0
    for seed in range(300):
        first, second = (rng.random((2, 80, 1)) < 0.7).astype(np.float64)
        difference = differences([measure] * 2, [first, second], seed=seed, resamples=300)
        small += difference["accuracy"].p_value < 0.1
    assert 0.05 < small / 300 < 0.17


def test_a_difference_is_paired() -> None:
    """The second run is right on the first one's items and ten more; unpaired tests miss that."""
    first = np.arange(200)[:, None] < 100
    second = np.arange(200)[:, None] < 110
    difference = differences(
        [measures.means("accuracy")] * 2, [first.astype(float), second.astype(float)], seed=0
    )["accuracy"]
    assert difference.difference == pytest.approx(0.05)
    assert 0.01 < difference.low < 0.03
    assert 0.07 < difference.high < 0.09
    assert difference.p_value < 0.01


def test_the_size_of_the_scores_does_not_matter() -> None:
    """Errors of numbers near 1e-7 have a mean square near 1e-14, and the same p value."""
    rng = np.random.default_rng(5)
    truth = rng.random(60)
    first, second = (np.stack([truth + rng.normal(0, size, 60), truth], 1) for size in (0.2, 0.02))
    large, small = (
        differences([measures.estimates] * 2, [first * size, second * size], seed=0)["mse"]
        for size in (1.0, 1e-7)
    )
    assert large.p_value == pytest.approx(small.p_value)
    assert large.p_value < 0.01


def test_a_difference_by_rounding_is_none() -> None:
    first = np.full((50, 1), 0.3)
    second = np.full((50, 1), 0.1 + 0.2)
    difference = differences([measures.means("accuracy")] * 2, [first, second], seed=0)["accuracy"]
    assert difference.p_value == pytest.approx(1)


def test_a_run_does_not_differ_from_itself() -> None:
    columns = np.random.default_rng(4).random((50, 2))
    for difference in differences([measures.estimates] * 2, [columns] * 2, seed=0).values():
        assert (difference.low, difference.difference, difference.high) == (0, 0, 0)
        assert difference.p_value == 1


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    columns = np.random.default_rng(5).random((50, 1))
    measure = measures.means("f1")
    first, again, other = (intervals(measure, columns, seed=seed)["f1"] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("b", "c"), [(0, 5), (3, 9), (10, 10), (1, 0), (40, 22)])
def test_mcnemar_is_the_closed_form(b: int, c: int) -> None:
    first = np.array([True] * b + [False] * c + [True] * 30 + [False] * 7)
    second = np.array([False] * b + [True] * c + [True] * 30 + [False] * 7)
    tail = sum(comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail))


def test_mcnemar_of_runs_that_agree() -> None:
    right = np.array([True, False, True])
    assert mcnemar(right, right) == 1


def test_a_known_data_set() -> None:
    """Four items of three classes by hand: 2 right; F1 of a 2/3, of b 2/3, of c 0."""
    columns = np.array([[0, 0, 0.9], [0, 1, 0.8], [1, 1, 0.7], [2, 0, 0.6]])
    columns[1, 1], columns[3, 1] = 1, 1
    scores = point_estimates(measures.classes(3), columns)
    # a: 1 of 1 predicted and 2 true, F1 2/3; b: 1 of 3 predicted and 1 true, F1 1/2; c: 0.
    assert scores["accuracy"] == pytest.approx(0.5)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_the_bootstrap_of_texts_agrees_with_that_of_sacrebleu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "11")
    metric = text_metrics(cased=True)[name]
    right = [text for _, text in TEXTS]
    systems = [[text for text, _ in TEXTS], [text[: len(text) - 4] for text, _ in TEXTS]]
    test = PairedTest(
        [("first", systems[0]), ("second", systems[1])], {name: metric}, [right], "bs", 2000
    )
    _, result = test()
    (theirs,) = (rows for key, rows in result.items() if key != "System")
    sizes = [len(text_statistics(metric, "", ""))]
    columns = [
        np.array([text_statistics(metric, *pair) for pair in zip(texts, right, strict=True)])
        for texts in systems
    ]
    measure = measures.texts({name: metric}, sizes)
    ours = [intervals(measure, column.astype(np.float64), seed=0)[name] for column in columns]
    for one, other in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(other.score)
        assert (one.high - one.low) / 2 == pytest.approx(other.ci, rel=0.08)
    difference = differences(
        [measure] * 2, [column.astype(np.float64) for column in columns], seed=0
    )[name]
    assert difference.p_value == pytest.approx(theirs[1].p_value, abs=0.03)


def test_scores_that_one_run_lacks_are_not_compared() -> None:
    """A run whose vocabulary cannot write the texts has no likelihood of them."""
    rng = np.random.default_rng(4)
    right = (rng.random((40, 1)) < 0.7).astype(np.float64)
    likelihood = np.stack([-rng.random(40), np.ones(40)], 1)
    measure = measures.both(measures.likelihood, measures.means("accuracy"), at=2)
    columns = [np.hstack([0 * likelihood, right]), np.hstack([likelihood, 1 - right])]
    for runs in (columns, columns[::-1]):
        found = differences([measure] * 2, runs, seed=0)
        assert list(found) == ["accuracy"]
        accuracy = found["accuracy"]
        assert accuracy.low <= accuracy.difference <= accuracy.high
    assert differences([measures.likelihood] * 2, [0 * likelihood, likelihood], seed=0) == {}

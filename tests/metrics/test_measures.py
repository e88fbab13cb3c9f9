"""Measures of the whole data equal the library's scores; those of a resample, the drawn items'."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torchmetrics.functional import classification as functional

from heedful.metrics import (
    ClassificationScores,
    DetectionScores,
    EntityScores,
    LanguageScores,
    RegressionScores,
    RetrievalScores,
    measures,
)
from heedful.metrics.generation import text_metrics, text_scores, text_statistics

Columns = NDArray[np.float64]


def check(measure: measures.Measure, columns: Columns, score: Callable[[list[int]], Any]) -> None:
    """Compare a measure with a library's score of the items, and of a resample.

    Args:
        measure: the measure.
        columns: the numbers of each item. Shape (N, K).
        score: the library's scores of items, by their numbers.
    """
    rng = np.random.default_rng(0)
    size = len(columns)
    rows = [np.arange(size), rng.integers(0, size, size), rng.integers(0, size, size)]
    weights = np.stack([np.bincount(row, minlength=size) for row in rows]).astype(np.float64)
    computed = measure(columns, weights)
    for at, row in enumerate(rows):
        expected = score(row.tolist())
        assert set(computed) <= set(expected)
        for name, value in computed.items():
            assert value[at] == pytest.approx(expected[name], abs=2e-6), (name, at)


def test_very_many_classes_need_no_matrix_of_all_pairs() -> None:
    size = 300_000  # whose matrix would take 720 GB
    columns, weights = np.array([[7, 7, 0.9], [8, 9, 0.9]]), np.array([[1.0, 1.0], [2.0, 0.0]])
    assert measures.classes(size)(columns, weights)["accuracy"].tolist() == [0.5, 1.0]
    scores = ClassificationScores([str(number) for number in range(size)])
    scores.update(torch.nn.functional.one_hot(torch.tensor([7, 9]), size), torch.tensor([7, 8]))
    assert scores.compute()["accuracy"] == 0.5


def test_classes() -> None:
    rng = np.random.default_rng(1)
    probabilities = rng.dirichlet([0.4] * 4, 120)
    # One class is never true and one never predicted, which the means must leave out or count.
    truth = rng.choice([0, 1, 3], 120)
    probabilities[:, 3] /= 10
    probabilities /= probabilities.sum(1, keepdims=True)
    best = probabilities.argmax(1)

    def score(items: list[int]) -> dict[str, Any]:
        scores = ClassificationScores(["a", "b", "c", "d"])
        scores.update(torch.tensor(probabilities[items]), torch.tensor(truth[items]))
        return scores.compute()

    columns = np.stack([truth, best, probabilities.max(1)], axis=1)
    check(measures.classes(4), columns, score)


def test_the_correlation_of_one_class_is_none() -> None:
    columns = np.array([[0, 0, 0.9], [0, 1, 0.8]])
    scores = measures.classes(2)(columns, np.ones((1, 2)))
    assert scores["matthews"][0] == 0


def test_label_sets() -> None:
    rng = np.random.default_rng(2)
    probabilities, truth = rng.random((80, 5)), rng.integers(0, 2, (80, 5))
    truth[:, 4] = 0
    predicted = probabilities >= 0.5

    def score(items: list[int]) -> dict[str, Any]:
        scores = ClassificationScores(list("abcde"), multi_label=True)
        scores.update(torch.tensor(probabilities[items]), torch.tensor(truth[items]))
        return scores.compute()

    right = (predicted == truth).all(1, keepdims=True)
    check(measures.label_sets(5), np.hstack([truth, predicted, right]).astype(np.float64), score)


def test_entities() -> None:
    rng = np.random.default_rng(3)
    true = [[(k, k + 1, "AB"[rng.integers(2)]) for k in range(rng.integers(4))] for _ in range(60)]
    predicted = [
        [(start, end, label if rng.random() < 0.6 else "B") for start, end, label in spans]
        + [(9, 10, "A")] * int(rng.integers(2))
        for spans in true
    ]

    def score(items: list[int]) -> dict[str, Any]:
        scores = EntityScores()
        for item in items:
            scores.update(true[item], predicted[item])
        return scores.compute()

    rows = [[len({*a} & {*b}), len(b), len(a)] for a, b in zip(true, predicted, strict=True)]
    check(measures.entities, np.array(rows, dtype=np.float64), score)


@pytest.mark.parametrize("digits", [8, 0])
def test_estimates(digits: int) -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(0, 2, 90).round(digits)  # without digits many are equal
    estimate = (truth + rng.normal(0, 1, 90)).round(digits)

    def score(items: list[int]) -> dict[str, Any]:
        scores = RegressionScores()
        scores.update(torch.tensor(estimate[items]), torch.tensor(truth[items]))
        return scores.compute()

    check(measures.estimates, np.stack([estimate, truth], axis=1), score)


def test_correlations_that_are_none() -> None:
    columns = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    scores = measures.estimates(columns, np.ones((1, 3)))
    assert (scores["pearson"][0], scores["spearman"][0]) == (0, 0)


def test_the_correlation_of_equal_values_is_none_despite_rounding() -> None:
    columns = np.array([[0.1, 0.7]] * 3 + [[0.3, 0.9]])
    weights = np.array([[1.0] * 3 + [0.0], [1.0] * 4])
    scores = measures.estimates(columns, weights)
    assert (scores["pearson"][0], scores["spearman"][0]) == (0, 0)
    assert scores["pearson"][1] == pytest.approx(1)


def test_neighbours() -> None:
    generator = torch.Generator().manual_seed(5)
    queries = torch.randn(40, 4, generator=generator)
    partners = queries + torch.randn(40, 4, generator=generator)
    scores = RetrievalScores()
    scores.update(queries, partners, [str(number) for number in range(40)])
    cosines = queries @ partners.T
    ranks = (cosines > cosines.diagonal()[:, None]).sum(1) + 1
    whole = measures.neighbours(ranks.double().numpy()[:, None], np.ones((1, 40)))
    expected = scores.compute()
    for name, value in whole.items():
        assert value[0] == pytest.approx(expected[name])
    assert 0 < whole["recall_at_1"][0] < whole["recall_at_10"][0] < 1


def test_masked_tokens() -> None:
    rng = np.random.default_rng(6)
    hidden = rng.integers(1, 9, 50)
    columns = np.stack(
        [rng.random(50) * hidden, rng.integers(0, hidden + 1), hidden, rng.integers(0, 2, 50)], 1
    )

    def score(items: list[int]) -> dict[str, Any]:
        scores = LanguageScores("nsp_accuracy")
        scores.update(*(torch.tensor(columns[items, at]) for at in range(4)))
        return scores.compute()

    check(
        measures.both(measures.masked_tokens, measures.means("nsp_accuracy"), at=3), columns, score
    )


def test_detections() -> None:
    """Of tokens, against the library's binary scores; of counts, against our own."""
    rng = np.random.default_rng(7)
    truth, told = rng.random((40, 12)) < 0.2, rng.random((40, 12)) < 0.3
    columns = np.stack(
        [np.full(40, 12), (truth == told).sum(1), truth.sum(1), told.sum(1), (truth & told).sum(1)],
        1,
    ).astype(np.float64)

    def ours(items: list[int]) -> dict[str, Any]:
        scores = DetectionScores()
        for part in (items[:13], items[13:]):
            scores.update(*torch.tensor(columns[part]).T)
        return scores.compute()

    def library(items: list[int]) -> dict[str, Any]:
        found, right = torch.tensor(told[items]).flatten(), torch.tensor(truth[items]).flatten()
        return {
            "rtd_accuracy": float(functional.binary_accuracy(found, right)),
            "rtd_precision": float(functional.binary_precision(found, right)),
            "rtd_recall": float(functional.binary_recall(found, right)),
            "rtd_f1": float(functional.binary_f1_score(found, right)),
            "always_original": float((~right).double().mean()),
        }

    check(measures.detections, columns, ours)
    check(measures.detections, columns, library)


def test_of_nothing_replaced_and_nothing_found_the_shares_are_0() -> None:
    scores = DetectionScores()
    scores.update(*torch.tensor([[5.0], [5.0], [0.0], [0.0], [0.0]]))
    found = scores.compute()
    assert found == {
        "rtd_accuracy": 1.0,
        "always_original": 1.0,
        "rtd_precision": 0.0,
        "rtd_recall": 0.0,
        "rtd_f1": 0.0,
    }


TEXTS = [
    ("The cat sat on the mat.", "A cat sat on the mat ."),
    ("A man is playing.", "A man plays the guitar."),
    ("Two dogs run over green grass", "Two dogs run over the green grass."),
    ("", "Nothing at all."),
    ("The same text as it is here.", "The same text as it is here."),
] * 4


@pytest.mark.parametrize("cased", [True, False])
def test_texts(cased: bool) -> None:
    metrics = text_metrics(cased=cased)
    rows = [
        [number for one in metrics.values() for number in text_statistics(one, text, right)]
        for text, right in TEXTS
    ]
    sizes = [len(text_statistics(one, "", "")) for one in metrics.values()]

    def score(items: list[int]) -> dict[str, Any]:
        texts, right = zip(*(TEXTS[item] for item in items), strict=True)
        return text_scores(texts, right, cased=cased)

    check(measures.texts(metrics, sizes), np.array(rows, dtype=np.float64), score)

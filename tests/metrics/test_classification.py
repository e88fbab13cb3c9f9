"""Scores against sums computed by hand or with NumPy, item by item."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.metrics import ClassificationScores
from heedful.metrics.by_label import one_label_warning


def _scored(
    predicted: list[int], true: list[int], labels: list[str], confidence: float = 0.9
) -> dict[str, Any]:
    rest = (1 - confidence) / (len(labels) - 1)
    probabilities = torch.full((len(true), len(labels)), rest, dtype=torch.float64)
    probabilities[torch.arange(len(true)), predicted] = confidence
    scores = ClassificationScores(labels)
    scores.update(probabilities, torch.tensor(true))
    return scores.compute()


def _f1(hits: int, predicted: int, true: int) -> float:
    """From precision and recall, as in textbooks."""
    if hits == 0:
        return 0.0
    precision, recall = hits / predicted, hits / true
    return 2 * precision * recall / (precision + recall)


def _by_numpy(
    probabilities: np.ndarray[Any, np.dtype[np.float64]], true: np.ndarray[Any, np.dtype[np.int64]]
) -> dict[str, Any]:
    """Score single-label data from the items themselves, without a confusion matrix."""
    classes = probabilities.shape[1]
    predicted = np.array([list(row).index(max(row)) for row in probabilities])
    f1 = [
        _f1(((predicted == c) & (true == c)).sum(), (predicted == c).sum(), (true == c).sum())
        for c in range(classes)
        if (predicted == c).any() or (true == c).any()
    ]
    # Matthews as what it is: the correlation of the two one-hot codes, centred.
    x, y = (np.eye(classes)[which] for which in (predicted, true))
    x, y = x - x.mean(0), y - y.mean(0)
    spread = np.sqrt((x * x).sum() * (y * y).sum())
    confidence = probabilities.max(1)
    ece = 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if inside.any():
            gap = abs((predicted == true)[inside].mean() - confidence[inside].mean())
            ece += inside.mean() * gap
    return {
        "accuracy": (predicted == true).mean(),
        "macro_f1": np.mean(f1),
        "matthews": (x * y).sum() / spread if spread > 1e-12 else 0.0,
        "ece": ece,
    }


@given(
    seed=st.integers(0, 2**32 - 1),
    items=st.integers(1, 60),
    classes=st.integers(2, 6),
    sharpness=st.floats(0.1, 5),
)
def test_single_label_scores_are_those_of_the_items(
    seed: int, items: int, classes: int, sharpness: float
) -> None:
    random = np.random.default_rng(seed)
    odds = np.exp(random.normal(size=(items, classes)) * sharpness)
    probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)  # as of a model
    true = random.integers(0, random.integers(1, classes + 1), size=items)  # classes may be absent
    scores = ClassificationScores([str(c) for c in range(classes)])
    scores.update(torch.from_numpy(probabilities), torch.from_numpy(true))
    found = scores.compute()
    for key, expected in _by_numpy(probabilities.astype(np.float64), true).items():
        assert found[key] == pytest.approx(expected, rel=1e-12, abs=1e-12), key
    assert sum(map(sum, found["confusion"])) == found["items"] == items


def test_scores_worked_out_by_hand() -> None:
    found = _scored([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2], ["a", "b", "c"])
    assert found["confusion"] == [[2, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert found["accuracy"] == 4 / 6
    assert found["per_class"] == [
        {"label": "a", "precision": 2 / 3, "recall": 1.0, "f1": 0.8, "support": 2},
        {"label": "b", "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2},
        {"label": "c", "precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2},
    ]
    assert found["macro_f1"] == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)
    # 36 - (3, 2, 1).(2, 2, 2) covariance; spreads 36 - 14 and 36 - 12.
    assert found["matthews"] == pytest.approx((4 * 6 - 12) / (22 * 24) ** 0.5)
    assert found["ece"] == pytest.approx(0.9 - 4 / 6)


def test_matthews_of_two_classes_is_the_usual_formula() -> None:
    true = [1] * 6 + [0] * 14
    found = _scored([1] * 4 + [0] * 2 + [1] * 3 + [0] * 11, true, ["no", "yes"])
    assert found["matthews"] == pytest.approx((4 * 11 - 3 * 2) / (7 * 6 * 14 * 13) ** 0.5)


@pytest.mark.parametrize(
    ("predicted", "true"),
    [([0] * 10, [0] * 7 + [1] * 3), ([0] * 6 + [1] * 4, [1] * 10), ([1, 1], [1, 1]), ([0], [1])],
)
def test_matthews_is_zero_where_it_is_undefined(predicted: list[int], true: list[int]) -> None:
    assert _scored(predicted, true, ["no", "yes"])["matthews"] == 0.0


def test_matthews_is_exact_for_very_many_items_of_a_rare_class() -> None:
    scores = ClassificationScores(["no", "yes"])
    scores.update(torch.tensor([[0.6, 0.4]]), torch.tensor([0]))
    counts = {(0, 0): 99_990_000, (0, 1): 2_000, (1, 0): 3_000, (1, 1): 5_000}
    scores._pairs = Counter(counts)
    found = scores.compute()["matthews"]
    assert found == pytest.approx(0.668128381270273, rel=1e-12)


def test_a_class_in_neither_truth_nor_predictions_does_not_lower_macro_f1() -> None:
    found = _scored([0, 1, 1], [0, 1, 1], ["a", "b", "never"])
    assert found["macro_f1"] == 1.0
    assert found["per_class"][2] == {
        "label": "never",
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "support": 0,
    }


def test_a_class_predicted_but_absent_counts_as_zero() -> None:
    assert _scored([0, 2], [0, 0], ["a", "b", "c"])["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)


@pytest.mark.parametrize(("predicted", "expected"), [(0, 1.0), (1, 0.0)])
def test_one_item(predicted: int, expected: float) -> None:
    found = _scored([predicted], [0], ["a", "b"])
    assert (found["items"], found["accuracy"], found["macro_f1"]) == (1, expected, expected)


def test_calibration_error_weighs_its_bins() -> None:
    # Three sure and right (gap 0.1), one unsure and wrong (gap 0.6).
    probabilities = torch.tensor([[0.9, 0.1]] * 3 + [[0.4, 0.6]], dtype=torch.float64)
    scores = ClassificationScores(["a", "b"])
    scores.update(probabilities, torch.tensor([0, 0, 0, 0]))
    assert scores.compute()["ece"] == pytest.approx(0.75 * 0.1 + 0.25 * 0.6)


def test_a_calibration_bin_is_averaged_before_its_gap_is_taken() -> None:
    # 0.79 and 0.75 share the bin from 11/15 to 12/15: half of it right, 0.77 sure.
    probabilities = torch.tensor([[0.79, 0.21], [0.75, 0.25]], dtype=torch.float64)
    scores = ClassificationScores(["a", "b"])
    scores.update(probabilities, torch.tensor([0, 1]))
    assert scores.compute()["ece"] == pytest.approx(0.27)


def test_full_confidence_belongs_to_the_last_calibration_bin() -> None:
    # Surely wrong, and 0.95 and right: half of the bin right, 0.975 sure.
    scores = ClassificationScores(["a", "b"])
    scores.update(torch.tensor([[1, 0], [0.95, 0.05]]), torch.tensor([1, 0]))
    assert scores.compute()["ece"] == pytest.approx(0.475)


def test_the_calibration_error_of_many_items_is_summed_in_double_precision() -> None:
    found = _scored([0] * 100_000, [0] * 90_000 + [1] * 10_000, ["a", "b"])
    assert found["ece"] == pytest.approx(0, abs=1e-7)  # what single precision leaves of 0.9
    assert found["accuracy"] == 0.9


@pytest.mark.parametrize("multi_label", [False, True])
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_how_the_data_was_cut_into_batches_does_not_matter(
    multi_label: bool, sizes: list[int], seed: int
) -> None:
    total = sum(sizes) + 1
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(total, 3, generator=generator)
    target_shape = (total, 3) if multi_label else (total,)
    targets = torch.randint(0, 2, target_shape, generator=generator)
    whole, parts = (ClassificationScores(["a", "b", "c"], multi_label) for _ in range(2))
    whole.update(probabilities, targets)
    for rows, truth in zip(
        probabilities.split([*sizes, 1]), targets.split([*sizes, 1]), strict=True
    ):
        parts.update(rows, truth)
    found, expected = parts.compute(), whole.compute()
    # The one sum of fractions may differ in its last digit.
    assert found.pop("ece", 0) == pytest.approx(expected.pop("ece", 0))
    assert found == expected


def _multi_label(
    probabilities: list[list[float]], targets: list[list[int]], threshold: float = 0.5
) -> dict[str, Any]:
    scores = ClassificationScores(["a", "b", "c"], multi_label=True, threshold=threshold)
    scores.update(torch.tensor(probabilities), torch.tensor(targets))
    return scores.compute()


def test_multi_label_scores_worked_out_by_hand() -> None:
    found = _multi_label(
        [[0.9, 0.1, 0.5], [0.8, 0.7, 0.1], [0.2, 0.6, 0.4], [0.1, 0.2, 0.3]],
        [[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 0, 0]],
    )
    assert "confusion" not in found
    assert found["items"] == 4
    assert found["accuracy"] == 0.5
    assert found["per_class"] == [
        {"label": "a", "precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 2},
        {"label": "b", "precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 1},
        {"label": "c", "precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2},
    ]
    assert found["micro_f1"] == 2 * 4 / (5 + 5)
    assert found["macro_f1"] == pytest.approx(7 / 9)


@given(
    seed=st.integers(0, 2**32 - 1), items=st.integers(1, 40), threshold=st.sampled_from([0.2, 0.5])
)
def test_multi_label_scores_are_those_of_the_items(seed: int, items: int, threshold: float) -> None:
    random = np.random.default_rng(seed)
    probabilities = random.random((items, 3)).round(1)
    targets = (random.random((items, 3)) < random.random(3)).astype(int)
    found = _multi_label(probabilities.tolist(), targets.tolist(), threshold)
    true = targets == 1
    predicted = probabilities.astype(np.float32) >= threshold
    f1 = [_f1((p & t).sum(), p.sum(), t.sum()) for p, t in zip(predicted.T, true.T, strict=True)]
    assert found["accuracy"] == np.mean(
        [(p == t).all() for p, t in zip(predicted, true, strict=True)]
    )
    assert found["macro_f1"] == pytest.approx(np.mean(f1))
    micro = _f1((predicted & true).sum(), predicted.sum(), true.sum())
    assert found["micro_f1"] == pytest.approx(micro)


def test_multi_label_without_any_label_anywhere() -> None:
    found = _multi_label([[0.1, 0.1, 0.1]], [[0, 0, 0]])
    assert (found["accuracy"], found["micro_f1"], found["macro_f1"]) == (1.0, 0.0, 0.0)


def test_multi_label_data_may_have_one_label() -> None:
    scores = ClassificationScores(["a"], multi_label=True)
    scores.update(torch.tensor([[0.9], [0.8], [0.2]]), torch.tensor([[1.0], [0.0], [1.0]]))
    found = scores.compute()
    assert found["accuracy"] == 1 / 3
    assert found["micro_f1"] == found["macro_f1"] == 0.5
    assert found["per_class"] == [
        {"label": "a", "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    ]


@pytest.mark.parametrize("multi_label", [False, True])
def test_no_items_are_the_users_mistake(multi_label: bool) -> None:
    with pytest.raises(UserError, match="the data is empty"):
        ClassificationScores(["a", "b"], multi_label).compute()


def test_a_probability_that_is_not_a_number_is_refused() -> None:
    scores = ClassificationScores(["a", "b"])
    with pytest.raises(UserError, match="not a number"):
        scores.update(torch.tensor([[float("nan"), 0.5]]), torch.tensor([0]))


def test_logits_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="no probability"):
        ClassificationScores(["a", "b"]).update(torch.tensor([[-0.5, 1.5]]), torch.tensor([1]))


@pytest.mark.parametrize("target", [-1, 2])
def test_a_target_that_is_no_class_is_a_bug(target: int) -> None:
    with pytest.raises(AssertionError, match="no such class"):
        ClassificationScores(["a", "b"]).update(torch.tensor([[0.4, 0.6]]), torch.tensor([target]))


@pytest.mark.parametrize("multi_label", [False, True])
def test_probabilities_may_have_any_number_format(multi_label: bool) -> None:
    scores = ClassificationScores(["a", "b"], multi_label)
    targets = torch.tensor([[0, 1]]) if multi_label else torch.tensor([1])
    scores.update(torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16), targets)
    assert scores.compute()["accuracy"] == 1


@pytest.mark.parametrize("multi_label", [False, True])
def test_scores_are_plain_numbers(multi_label: bool) -> None:
    scores = ClassificationScores(["a", "b"], multi_label)
    targets = torch.tensor([[0, 1]]) if multi_label else torch.tensor([1])
    scores.update(torch.tensor([[0.3, 0.7]]), targets)
    assert json.loads(json.dumps(scores.compute(), allow_nan=False)) == scores.compute()


def test_many_labels_keep_the_cells_of_the_confusion_matrix_that_are_not_zero() -> None:
    labels = [f"label {number}" for number in range(201)]
    found = _scored([7, 7, 200], [3, 3, 200], labels)
    assert "confusion" not in found
    assert found["confusion_cells"] == [
        {"true": "label 3", "predicted": "label 7", "items": 2},
        {"true": "label 200", "predicted": "label 200", "items": 1},
    ]
    assert len(_scored([7], [3], labels[:200])["confusion"]) == 200


@pytest.mark.parametrize("size", [2, 201])
def test_one_label_for_all_items_is_warned_of(size: int) -> None:
    def warning(true: list[int], predicted: list[int]) -> str | None:
        scores = ClassificationScores([f"L{number}" for number in range(size)])
        scores.update(torch.eye(size)[predicted], torch.tensor(true))
        return one_label_warning(scores.compute())

    mixed, ones = [1] * 28 + [0] * 2, [1] * 30
    line = (
        "each of the 30 items gets the label 'L1', which 28 have: the model has not learned to "
        "tell the labels apart"
    )
    assert warning(mixed, ones) == line
    assert warning(mixed, mixed) is None
    assert warning(ones, ones) is None
    assert warning([0, 1], [1, 1]) is None  # too few to tell


def test_multi_label_scores_warn_of_nothing() -> None:
    scores = ClassificationScores(["a", "b"], multi_label=True)
    scores.update(torch.ones(30, 2), torch.eye(2, dtype=torch.int64).repeat(15, 1))
    assert one_label_warning(scores.compute()) is None

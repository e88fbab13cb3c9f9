import numpy as np
import pytest
import torch

from heedful.metrics import ClassificationScores
from heedful.metrics.calibration import calibration_error, reliability


def test_bins_and_their_error_are_those_of_the_library() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([0.5] * 3, 200)
    probabilities[0] = [1, 0, 0]
    probabilities[1] = [0.6, 0.2, 0.2]  # on the edge of a bin
    truth = rng.integers(0, 3, 200)
    scores = ClassificationScores(["a", "b", "c"])
    scores.update(torch.tensor(probabilities), torch.tensor(truth))
    decisions = np.stack(
        [probabilities.max(1), (probabilities.argmax(1) == truth).astype(float)], axis=1
    )
    bins = reliability(decisions)
    assert sum(one.count for one in bins) == 200
    assert all(one.low <= one.confidence <= one.high for one in bins)
    assert calibration_error(bins) == pytest.approx(scores.compute()["ece"], abs=1e-6)


def test_a_model_that_is_as_sure_as_it_is_right() -> None:
    bins = reliability(np.array([[0.5, 1], [0.5, 0]]))
    assert [(one.count, one.confidence, one.accuracy) for one in bins] == [(2, 0.5, 0.5)]
    assert calibration_error(bins) == pytest.approx(0)

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from heedful.metrics.calibration import CALIBRATION_BINS, Calibration, calibration_error


def test_the_error_is_that_of_the_library() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([0.5] * 3, 200)
    probabilities[0] = [0.6, 0.2, 0.2]  # on the edge of a bin
    truth = rng.integers(0, 3, 200)
    calibration = Calibration()
    for part in np.split(np.arange(200), [0, 150]):  # the first is empty
        right = probabilities[part].argmax(1) == truth[part]
        calibration.update(probabilities[part].max(1), right)
    bins = calibration.bins()
    assert sum(one.count for one in bins) == 200
    assert all(one.low <= one.confidence <= one.high for one in bins)
    expected = multiclass_calibration_error(
        torch.tensor(probabilities), torch.tensor(truth), 3, n_bins=CALIBRATION_BINS
    )
    assert calibration_error(bins) == pytest.approx(float(expected), abs=1e-6)


def test_a_model_that_is_as_sure_as_it_is_right() -> None:
    calibration = Calibration()
    calibration.update(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    bins = calibration.bins()
    assert [(one.count, one.confidence, one.accuracy) for one in bins] == [(2, 0.5, 0.5)]
    assert calibration_error(bins) == pytest.approx(0)


def test_a_bin_holds_its_upper_edge_and_the_first_its_lower_one_too() -> None:
    calibration = Calibration()
    calibration.update(np.array([0.0, 0.6, 1.0]), np.array([False, True, True]))
    assert [one.high for one in calibration.bins()] == [1 / CALIBRATION_BINS, 0.6, 1.0]

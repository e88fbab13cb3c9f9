"""Regression metrics, computed by SciPy and scikit-learn, with their edge cases handled."""

import math
from typing import Any

import torch
from torch import Tensor

from heedful.errors import UserError


class RegressionScores:
    """Collects predictions and targets, and returns their correlations and mean squared error.

    Spearman's correlation needs ranks, so all values are kept: 16 bytes per item.
    """

    def __init__(self) -> None:
        self._estimates: list[Tensor] = []
        self._targets: list[Tensor] = []

    def update(self, estimates: Tensor, targets: Tensor) -> None:
        """Add a batch of predictions and targets.

        Shape:
            both (N,).

        Raises:
            UserError: a prediction is not finite.
        """
        assert estimates.shape == targets.shape
        if not estimates.isfinite().all():
            raise UserError("an estimate is not a number; the model is damaged")
        self._estimates.append(estimates.double().cpu())
        self._targets.append(targets.double().cpu())

    def compute(self) -> dict[str, Any]:
        """Return ``items``, ``pearson``, ``spearman`` and ``mse``, ready for JSON.

        A correlation is 0 if it is undefined because all predictions or all targets are equal.

        Raises:
            UserError: no item was added.
        """
        # These imports take a second, so they are done only here.
        from scipy.stats import pearsonr, spearmanr
        from sklearn.metrics import mean_squared_error

        if not self._targets or not sum(map(len, self._targets)):
            raise UserError("no items to score: the data is empty")
        estimates, targets = (torch.cat(part).numpy() for part in (self._estimates, self._targets))
        is_constant = bool((estimates == estimates[0]).all() or (targets == targets[0]).all())
        pearson = 0.0 if is_constant else float(pearsonr(estimates, targets).statistic)
        spearman = 0.0 if is_constant else float(spearmanr(estimates, targets).statistic)
        return {
            "items": len(targets),
            "pearson": pearson if math.isfinite(pearson) else 0.0,
            "spearman": spearman if math.isfinite(spearman) else 0.0,
            "mse": float(mean_squared_error(targets, estimates)),
        }

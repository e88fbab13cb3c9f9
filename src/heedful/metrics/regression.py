"""Scores of predicted numbers: libraries compute, this file handles their edge cases."""

import math
from typing import Any

import torch
from torch import Tensor

from heedful.errors import UserError


class RegressionScores:
    """Collects predicted and true numbers, and returns their correlations and squared error.

    Spearman's correlation needs their ranks, so all numbers are kept: 16 bytes for each item.
    """

    def __init__(self) -> None:
        self._estimates: list[Tensor] = []
        self._targets: list[Tensor] = []

    def update(self, estimates: Tensor, targets: Tensor) -> None:
        """Count a batch.

        Shape:
            both (N,).

        Raises:
            UserError: an estimate is not a number.
        """
        assert estimates.shape == targets.shape
        if not estimates.isfinite().all():
            raise UserError("an estimate is not a number; the model is damaged")
        self._estimates.append(estimates.double().cpu())
        self._targets.append(targets.double().cpu())

    def compute(self) -> dict[str, Any]:
        """Return ``items``, ``pearson``, ``spearman`` and ``mse``, ready for JSON.

        A correlation is 0 if it is undefined, because all estimates or all targets are equal.

        Raises:
            UserError: nothing was counted.
        """
        # Take a second to import, so they are imported when something is scored.
        from scipy.stats import pearsonr, spearmanr
        from sklearn.metrics import mean_squared_error

        if not self._targets or not sum(map(len, self._targets)):
            raise UserError("no items to score: the data is empty")
        estimates, targets = (torch.cat(part).numpy() for part in (self._estimates, self._targets))
        flat = bool((estimates == estimates[0]).all() or (targets == targets[0]).all())
        pearson = 0.0 if flat else float(pearsonr(estimates, targets).statistic)
        spearman = 0.0 if flat else float(spearmanr(estimates, targets).statistic)
        return {
            "items": len(targets),
            "pearson": pearson if math.isfinite(pearson) else 0.0,
            "spearman": spearman if math.isfinite(spearman) else 0.0,
            "mse": float(mean_squared_error(targets, estimates)),
        }

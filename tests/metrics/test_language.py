import math

import pytest
import torch

from heedful import UserError
from heedful.metrics import LanguageScores


def test_scores_weigh_tokens_not_sequences() -> None:
    scores = LanguageScores("nsp_accuracy")
    follows = torch.tensor([True, False])
    scores.update(torch.tensor([2.0, 0.0]), torch.tensor([1, 0]), torch.tensor([4, 0]), follows)
    scores.update(torch.tensor([4.0]), torch.tensor([5]), torch.tensor([6]), torch.tensor([True]))
    assert scores.compute() == {
        "items": 3,
        "masked_tokens": 10,
        "masked_accuracy": pytest.approx(0.6, abs=1e-12),
        "perplexity": pytest.approx(math.exp(0.6), abs=1e-12),
        "nsp_accuracy": pytest.approx(2 / 3, abs=1e-12),
    }


def test_single_texts_have_no_score_of_what_follows() -> None:
    scores = LanguageScores()
    scores.update(torch.tensor([1.0]), torch.tensor([1]), torch.tensor([1]))
    assert "nsp_accuracy" not in scores.compute()


def test_small_losses_are_not_lost_in_long_sums() -> None:
    scores = LanguageScores()
    for _ in range(3):
        scores.update(torch.full((1000,), 0.1), torch.ones(1000), torch.ones(1000))
    assert scores.compute()["perplexity"] == pytest.approx(math.exp(0.1), abs=1e-7)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_damaged_model_is_named(loss: float) -> None:
    with pytest.raises(UserError, match="not a number"):
        LanguageScores().update(torch.tensor([loss]), torch.tensor([0]), torch.tensor([1]))


def test_nothing_to_score_and_a_hopeless_model() -> None:
    with pytest.raises(UserError, match="the data is empty"):
        LanguageScores().compute()
    scores = LanguageScores()
    scores.update(torch.tensor([1e6]), torch.tensor([0]), torch.tensor([1]))
    assert math.isfinite(scores.compute()["perplexity"])

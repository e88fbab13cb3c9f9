import pytest

from heedful.errors import UserError
from heedful.metrics import ChoiceScores


def test_the_share_that_is_right() -> None:
    scores = ChoiceScores()
    scores.update([0, 2, 1], [0, 1, 1])
    scores.update([], [])
    scores.update([2], [0])
    assert scores.compute() == {"items": 4, "accuracy": pytest.approx(0.5)}


def test_the_share_has_all_its_digits() -> None:
    scores = ChoiceScores()
    scores.update([0, 1, 1], [0, 1, 0])
    assert scores.compute()["accuracy"] == pytest.approx(2 / 3, rel=1e-12)


def test_nothing_to_score() -> None:
    with pytest.raises(UserError, match="no items to score: the data is empty"):
        ChoiceScores().compute()

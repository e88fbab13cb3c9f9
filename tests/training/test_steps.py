"""How many steps a run has, and how often it is evaluated, where nobody says."""

import pytest

from heedful.settings import TrainSettings, TranslateTrainSettings


@pytest.mark.parametrize(
    ("settings", "steps_per_epoch", "steps", "every"),
    [
        (TrainSettings(), 500, 1500, 500),
        (TrainSettings(), 67, 201, 67),
        (TrainSettings(), 66, 264, 66),  # whole passes
        (TrainSettings(), 1, 200, 10),
        (TrainSettings(epochs=3), 2, 6, 2),
        (TrainSettings(epochs=50), 2, 100, 5),
        (TrainSettings(steps=7), 2, 7, 2),
        (TrainSettings(epochs=3, steps=7), 2, 7, 2),
        (TrainSettings(evaluate_every=3), 1, 200, 3),
        (TranslateTrainSettings(), 2, 30, 2),
    ],
)
def test_steps_and_evaluations(
    settings: TrainSettings, steps_per_epoch: int, steps: int, every: int
) -> None:
    assert settings.total_steps(steps_per_epoch) == steps
    assert settings.steps_between_evaluations(steps_per_epoch) == every

"""Default numbers of steps, learning rates and evaluation intervals."""

from pathlib import Path
from typing import Any

import pytest

from heedful.models import BertConfig
from heedful.settings import (
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    ParallelSettings,
    PretrainSettings,
    RunSettings,
    TrainSettings,
    TranslateSettings,
    TranslateTrainSettings,
)
from heedful.settings.training import FINE_TUNING
from heedful.task import Recipe


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
        (TranslateTrainSettings(), 2, 200, 10),
    ],
)
def test_steps_and_evaluations(
    settings: TrainSettings, steps_per_epoch: int, steps: int, every: int
) -> None:
    usual = settings.defaults(from_scratch=False)
    assert usual == FINE_TUNING
    assert settings.total_steps(steps_per_epoch, usual) == steps
    assert settings.steps_between_evaluations(steps_per_epoch, steps) == every


@pytest.mark.parametrize(
    ("settings", "steps_per_epoch", "steps"),
    [
        (TrainSettings(), 1000, 3000),
        (TrainSettings(), 45, 2025),
        (TrainSettings(epochs=3), 45, 135),
        (TranslateTrainSettings(), 1000, 15000),
        (TranslateTrainSettings(), 16, 2000),
        (TranslateTrainSettings(epochs=15), 16, 240),
        (TranslateTrainSettings(steps=7), 16, 7),
    ],
)
def test_a_model_from_scratch_makes_more_steps(
    settings: TrainSettings, steps_per_epoch: int, steps: int
) -> None:
    usual = settings.defaults(from_scratch=True)
    assert settings.total_steps(steps_per_epoch, usual) == steps


@pytest.mark.parametrize(
    ("settings", "from_scratch", "rates"),
    [
        (TrainSettings(), False, [7e-5, 7e-5, 7e-5]),
        (TrainSettings(), True, [5e-4, 5e-4, 1.25e-4]),
        (TranslateTrainSettings(), False, [7e-5, 7e-5, 7e-5]),
        (TranslateTrainSettings(), True, [1e-3, 1e-3, 1e-3]),
    ],
)
def test_a_model_from_scratch_learns_faster_and_a_wide_one_more_slowly(
    settings: TrainSettings, from_scratch: bool, rates: list[float]
) -> None:
    usual = settings.defaults(from_scratch=from_scratch)
    configs = [BertConfig(hidden_size=width, num_attention_heads=4) for width in (128, 256, 1024)]
    assert [usual.rate(config) for config in configs] == pytest.approx(rates)


FILES = [Path("a"), Path("b")]


@pytest.mark.parametrize(
    ("data", "options", "from_scratch"),
    [
        (DataSettings(train=FILES), ClassifySettings(), False),
        (DataSettings(train=FILES), ClassifySettings(preset="mini"), True),
        (DataSettings(train=FILES), PretrainSettings(), False),
        (
            DataSettings(train=FILES),
            PretrainSettings(preset="mini", vocabulary="words"),
            True,
        ),
        (ParallelSettings(train=FILES), TranslateSettings(), True),
        (ParallelSettings(train=FILES, model="run"), TranslateSettings(), False),
    ],
)
def test_which_models_are_from_scratch(data: Any, options: Any, from_scratch: bool) -> None:
    recipe = Recipe(
        data=data,
        options=options,
        columns=ColumnSettings(),
        training=TrainSettings(),
        run=RunSettings(out=Path("run")),
    )
    assert recipe.from_scratch == from_scratch

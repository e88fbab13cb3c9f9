"""The final weights of a run: of one step, the mean of several, or a moving average."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from heedful.checkpoints import steps
from heedful.checkpoints.averaging import averaged_weights
from heedful.commands.train import train
from heedful.errors import UserError
from heedful.metrics import ClassificationScores
from heedful.settings import (
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    RunSettings,
    TrainSettings,
)
from heedful.task import Recipe


@pytest.fixture
def run(tiny_model: Path, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.setattr(steps, "prune", lambda *given, **more: None)
    return Run(tiny_model, colours, tmp_path / "run")


class Run:
    """A short run that keeps all its checkpoints."""

    def __init__(self, model: Path, data: Path, out: Path) -> None:
        self.model, self.data, self.out = model, data, out

    def train(
        self, *, dev: bool, average: int = 1, ema: float | None = None, steps: int = 10
    ) -> list[str]:
        """Train, and return the messages."""
        recipe = Recipe(
            data=DataSettings(
                train=[self.data], dev=[self.data] if dev else None, model=str(self.model)
            ),
            options=ClassifySettings(),
            columns=ColumnSettings(),
            training=TrainSettings(
                steps=steps,
                batch_size=4,
                learning_rate=3e-2,
                head_learning_rate=3e-2,
                precision="fp32",
                checkpoint_every=4,
                evaluate_every=2 if dev else None,
                metric="macro_f1" if dev else None,
                average=average,
                ema=ema,
            ),
            run=RunSettings(out=self.out),
        )
        said: list[str] = []
        train("classify", recipe, say=said.append)
        return said

    def weights(self, step: int | None = None, name: str = "model") -> dict[str, np.ndarray]:
        folder = self.out if step is None else steps.folder_of(self.out, step)
        return load_file(folder / f"{name}.safetensors")

    def assert_mean_of(self, wanted: list[int], name: str = "model") -> None:
        found, parts = self.weights(), [self.weights(step, name) for step in wanted]
        for key, value in found.items():
            right = np.mean([part[key].astype(np.float64) for part in parts], 0)
            np.testing.assert_allclose(value, right, rtol=1e-6, err_msg=key)


def test_the_last_ones(run: Run) -> None:
    run.train(dev=False, average=3)
    assert steps.steps(run.out) == [4, 8, 10]
    run.assert_mean_of([4, 8, 10])


def test_the_best_ones(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equally good ones, the last."""
    given, compute = iter([0.9, 0.9, 0.1, 0.9, 0.9, 0.0]), ClassificationScores.compute
    monkeypatch.setattr(
        ClassificationScores, "compute", lambda self: compute(self) | {"macro_f1": next(given)}
    )
    run.train(dev=True, average=3)
    rows = [json.loads(line) for line in (run.out / "metrics.jsonl").read_text().splitlines()]
    values = {row["step"]: row["dev"]["macro_f1"] for row in rows if "dev" in row}
    assert values == {2: 0.9, 4: 0.9, 6: 0.1, 8: 0.9, 10: 0.9}
    run.assert_mean_of([4, 8, 10])


@pytest.mark.parametrize(
    ("dev", "steps", "option"), [(False, 3, "--checkpoint-every"), (True, 2, "--evaluate-every")]
)
def test_one_step_alone_is_no_mean(run: Run, dev: bool, steps: int, option: str) -> None:
    line = (
        f"--average 3: the final weights are those of step {steps} alone; with a smaller {option}"
    )
    assert any(said.startswith(line) for said in run.train(dev=dev, average=3, steps=steps))
    run.assert_mean_of([steps])


def test_a_moving_average_is_what_is_evaluated_and_kept(run: Run) -> None:
    run.train(dev=False, ema=0.7)
    run.assert_mean_of([10], "average")
    assert any((run.weights(10)[key] != value).any() for key, value in run.weights().items())


def test_the_mean_of_moving_averages(run: Run) -> None:
    run.train(dev=False, average=2, ema=0.7)
    run.assert_mean_of([8, 10], "average")


def test_a_damaged_checkpoint_is_named(run: Run) -> None:
    run.train(dev=False)
    folders = [steps.folder_of(run.out, step) for step in (4, 8)]
    (folders[1] / steps.WEIGHTS).write_bytes(b"")
    with pytest.raises(UserError, match=r"step-8"):
        averaged_weights(folders)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"average": 0}, "--average 0: must be a whole number of at least 1"),
        ({"ema": 1.0}, "--ema 1.0: must be from 0 to below 1"),
        ({"ema": -0.1}, "--ema -0.1"),
    ],
)
def test_settings_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TrainSettings(**options)  # type: ignore[arg-type]

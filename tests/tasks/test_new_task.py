"""The task that the documentation builds is a task: it trains, evaluates and predicts."""

import re
from pathlib import Path

import pytest

from heedful.commands.evaluate import evaluate
from heedful.commands.train import train
from heedful.predictor import Predictor
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    RegressSettings,
    RunSettings,
    TrainSettings,
)
from heedful.tasks import TASKS

PAGE = Path(__file__).parents[2] / "docs" / "new-task.md"


def test_the_documented_task_works(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {"__name__": "stars"}
    exec(compile(source, str(PAGE), "exec"), names)
    monkeypatch.setitem(TASKS, "stars", names["TASK"])

    data = tmp_path / "reviews.csv"
    rows = [f"a {word} {'very ' * n}apple,{stars}" for n in range(4) for word, stars in WORDS]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    rates = {"learning_rate": 1e-2, "head_learning_rate": 1e-2}
    training = TrainSettings(epochs=40, batch_size=4, precision="fp32", **rates)
    start = DataSettings(train=[data], model=str(tiny_model), dropout=0.0)
    run = tmp_path / "run"
    train("stars", start, RegressSettings(), ColumnSettings(), training, RunSettings(out=run))

    predictor = Predictor.load(run)
    answers = predictor(["a blue apple", "a red apple", "a green apple"])
    assert [answer.value for answer in answers] == [1, 3, 5]
    assert predictor.task.plain(answers[1]) == "***"
    assert evaluate(run, [data], ColumnSettings(), predictor)["mse"] < 0.1


WORDS = (("blue", 1), ("red", 3), ("green", 5))

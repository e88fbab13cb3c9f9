"""The task that the documentation builds trains, evaluates and predicts."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import heedful
from heedful.cli import training
from heedful.settings import TASKS, RegressSettings, TaskEntry

PAGE = Path(__file__).parents[2] / "docs" / "new-task.md"
WORDS = (("blue", 1), ("red", 3), ("green", 5))


def test_the_documented_task_works(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = ModuleType("heedful.tasks.stars")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, str(PAGE), "exec"), module.__dict__)
    (line,) = re.findall(r'^    "stars": (.*),$', page, re.MULTILINE)
    names = {"TaskEntry": TaskEntry, "RegressSettings": RegressSettings}
    monkeypatch.setitem(TASKS, "stars", eval(line, names))

    data = tmp_path / "reviews.csv"
    rows = [f"a {word} {'very ' * n}apple,{stars}" for n in range(4) for word, stars in WORDS]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    run = tmp_path / "run"
    heedful.train(
        "stars",
        train=data,
        out=run,
        model=str(tiny_model),
        epochs=40,
        batch_size=4,
        dropout=0.0,
        learning_rate=1e-2,
        head_learning_rate=1e-2,
        precision="fp32",
    )
    answers = heedful.load(run)(["a blue apple", "a red apple", "a green apple"])
    assert [answer.value for answer in answers] == [1, 3, 5]
    assert answers[1].plain() == "***"
    assert answers[1].to_dict()["stars"] == 3
    assert heedful.evaluate(run, data)["mse"] < 0.1
    assert training.command("stars", TASKS["stars"]).__doc__.startswith("Predict a number")

"""The default objective of pre-training."""

import re
from pathlib import Path

import pytest
from tests.tiny_folders import ENCODERS, write_folder

from heedful.settings import (
    ColumnSettings,
    DataSettings,
    PretrainSettings,
    RunSettings,
    TeacherSettings,
    TrainSettings,
)
from heedful.task import Recipe
from heedful.tasks.objectives.defaults import with_default_objective

PAGE = (Path(__file__).parents[2] / "docs" / "family.md").read_text(encoding="utf-8")
GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"


def objective_of(
    options: PretrainSettings, *, model: str = "minilm", teacher: Path | None = None
) -> str | None:
    recipe = Recipe(
        data=DataSettings(train=(Path("books.txt"),), model=model),
        options=options,
        columns=ColumnSettings(),
        training=TrainSettings(),
        run=RunSettings(out=Path("run")),
        teaching=TeacherSettings(teacher=teacher),
    )
    settings = with_default_objective(recipe).options
    assert isinstance(settings, PretrainSettings)
    return settings.objective


@pytest.mark.parametrize("family", ENCODERS)
def test_a_family_learns_the_first_objective_of_its_line(family: str, tmp_path: Path) -> None:
    line = re.search(rf"^\| \[{family}\].*", PAGE, re.MULTILINE)
    assert line
    first = line[0].split(" | ")[3].split(", ")[0]
    fresh = PretrainSettings(arch=family, preset="tiny", vocabulary="words")
    assert objective_of(fresh) == first
    write_folder(family, tmp_path / "model")
    assert objective_of(PretrainSettings(), model=str(tmp_path / "model")) == first


def test_what_users_say_comes_first() -> None:
    fresh = PretrainSettings(arch="electra", preset="tiny", vocabulary="words", objective="mlm")
    assert objective_of(fresh) == "mlm"


@pytest.mark.parametrize(("run", "objective"), [("masked", "mlm"), ("pretrain", "mlm+nsp")])
def test_a_student_learns_what_its_teacher_has_learnt(run: str, objective: str) -> None:
    fresh = PretrainSettings(arch="albert", preset="tiny", vocabulary="words")
    assert objective_of(fresh, teacher=GOLDEN / run) == objective

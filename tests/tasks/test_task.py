"""Properties that several tasks share."""

from pathlib import Path

import pytest
from tests import tiny

from heedful import BertLMHeadModel, BertModel
from heedful.settings import TASKS
from heedful.task import AnyTask
from heedful.tasks import task_named
from heedful.tasks.answer import Answer
from heedful.tasks.choose import Choose
from heedful.tasks.classify import Classify
from heedful.tasks.embed import Embed
from heedful.tasks.regress import Regress
from heedful.tasks.tag import Tag
from heedful.tokens import BertTokenizer


@pytest.mark.parametrize(
    "task",
    [
        Classify(labels=("a", "b"), multi_label=False),
        Regress(mean=0.0, lowest=0.0, highest=1.0),
        Tag(labels=("O", "B-x", "I-x"), scheme="BIO", label_pieces="first"),
        Answer(no_answer=False, threshold=0.0, stride=1, max_answer_tokens=3),
        Choose(choices=2),
        Embed(pooling="mean"),
    ],
    ids=lambda task: task.name,
)
def test_what_learnt_to_write_can_look_ahead_again(
    task: AnyTask, tiny_model: Path, tmp_path: Path
) -> None:
    BertLMHeadModel.from_pretrained(tiny_model, is_decoder=True).save_pretrained(tmp_path)
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    model = task.start(tiny.recipe(task.name, model=str(tmp_path))).model
    assert all(
        part.config.is_decoder is False for part in model.modules() if isinstance(part, BertModel)
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_table_names_each_task_as_it_names_itself(name: str) -> None:
    kind = task_named(name)
    assert kind.name == name
    assert (TASKS[name].options.__doc__ or "").strip()

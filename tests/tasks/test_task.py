"""What holds for several tasks alike."""

from pathlib import Path
from typing import Any

import pytest

from heedful import BertLMHeadModel
from heedful.predictor import reading_config
from heedful.settings import ColumnSettings, DataSettings
from heedful.tasks import TASKS, answer, choose, classify, embed, generate, regress, tag
from heedful.tokens import BertTokenizer


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("classify", classify.Goal(labels=("a", "b"), multi_label=False)),
        ("regress", regress.Goal(mean=0.0, lowest=0.0, highest=1.0)),
        ("tag", tag.Goal(labels=("O", "B-x", "I-x"), scheme="BIO", label_pieces="first")),
        ("answer", answer.Goal(no_answer=False, threshold=0.0, stride=1, max_answer_tokens=3)),
        ("choose", choose.Goal(choices=2)),
        ("embed", embed.Goal(pooling="mean")),
    ],
)
def test_what_learnt_to_write_can_look_ahead_again(
    name: str, goal: Any, tiny_model: Path, tmp_path: Path
) -> None:
    BertLMHeadModel.from_pretrained(tiny_model, is_decoder=True).save_pretrained(tmp_path)
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    model = TASKS[name].build(goal, DataSettings(train=[], model=str(tmp_path)))
    assert not reading_config(model).is_decoder


def test_empty_lines_are_answered_but_not_learnt(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("the sky\n\nis blue\n")
    lines = [
        [record.line for record in generate.read([path], ColumnSettings(), labelled)]
        for labelled in (True, False)
    ]
    assert lines == [[1, 3], [1, 2, 3]]

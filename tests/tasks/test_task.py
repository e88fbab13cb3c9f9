"""What holds for several tasks alike."""

from pathlib import Path
from typing import Any

import pytest

from heedful import BertLMHeadModel, BertModel
from heedful.errors import UserError
from heedful.settings import ColumnSettings, DataSettings, PredictSettings
from heedful.tasks import TASKS, Fit, answer, choose, classify, embed, generate, regress, tag
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
    assert all(
        part.config.is_decoder is False for part in model.modules() if isinstance(part, BertModel)
    )


def test_empty_lines_are_answered_but_not_learnt(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("the sky\n\nis blue\n")
    lines = [
        [record.line for record in generate.read([path], ColumnSettings(), labelled)]
        for labelled in (True, False)
    ]
    assert lines == [[1, 3], [1, 2, 3]]


def test_two_models_go_on_with_the_dropout_that_is_given(tiny_model: Path, tmp_path: Path) -> None:
    goal = generate.Goal(pairs=True)
    generate.build(goal, DataSettings(train=[], model=str(tiny_model))).save_pretrained(tmp_path)  # type: ignore[operator]
    BertTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    model = generate.build(goal, DataSettings(train=[], model=str(tmp_path), dropout=0.25))
    configs = [part.config for part in model.modules() if isinstance(part, BertModel)]
    rates = [(one.hidden_dropout_prob, one.attention_probs_dropout_prob) for one in configs]
    assert rates == [(0.25, 0.25)] * 2


def test_a_text_to_go_on_from_keeps_its_end(tiny_model: Path) -> None:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    records, goal = generate.from_texts(["a red apple"]), generate.Goal(pairs=False)
    with pytest.raises(UserError, match="--long-text: a text to go on from keeps its end"):
        list(generate.encode(records, goal, tokenizer, Fit(max_length=8, rule="head"), False))


@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_drawn_for_a_text_depends_on_it_alone(pairs: bool, tiny_model: Path) -> None:
    goal, tokenizer = generate.Goal(pairs=pairs), BertTokenizer.from_pretrained(tiny_model)
    model = generate.build(goal, DataSettings(train=[], model=str(tiny_model))).eval()
    records = generate.from_texts(["a red apple", "the very very very blue sky", "grass is green"])
    settings = PredictSettings(sample=True, max_new_tokens=6)

    def drawn(*places: int) -> list[tuple[str, ...]]:
        chosen = [records[place] for place in places]
        fit = Fit(max_length=16, rule="window")
        items = list(generate.encode(chosen, goal, tokenizer, fit, False))
        batch = generate.batch_of([one.pieces[0] for one in items], goal, tokenizer, None)
        outputs = generate.compute(model, batch, goal, settings)
        rows = zip(chosen, items, outputs, strict=True)
        answers = [generate.decode(*row[:2], [row[2]], goal, settings, tokenizer) for row in rows]
        return [tuple(one.text for one in answer.n_best) for answer in answers]

    together = drawn(0, 1, 2)
    assert drawn(2, 1, 0) == together[::-1]
    assert drawn(1) == together[1:2]

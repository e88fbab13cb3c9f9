"""What a run is asked for in vain is refused, not passed over."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from heedful import predictor
from heedful.checkpoints.runs import RunRecord
from heedful.commands.predict import records_of
from heedful.errors import UserError
from heedful.models import BertLMHeadModel
from heedful.predictor import Predictor, check_options
from heedful.reading.lines import STDIN, read_lines
from heedful.settings import ClassifySettings, ColumnSettings, PredictSettings, RegressSettings
from heedful.tasks import TASKS, Fit, generate, regress
from heedful.tasks.texts import from_texts
from heedful.tokens import BertTokenizer

FIT = Fit(max_length=16, rule="head")


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("classify", PredictSettings(beam=2), "--beam decides nothing where a run learnt to clas"),
        ("tag", PredictSettings(no_answer_threshold=0.0), "--no-answer-threshold decides nothing"),
        ("answer", PredictSettings(aggregation="max"), "--aggregation decides nothing"),
        ("generate", PredictSettings(top_p=0.5), "--top-p decides how words are drawn: give --sam"),
        ("generate", PredictSettings(beam=2, sample=True), "--beam searches and --sample draws"),
        (
            "translate",
            PredictSettings(coverage_penalty=0.1, sample=True),
            "--coverage-penalty searches and --sample draws",
        ),
    ],
)
def test_options_that_would_change_nothing(
    task: str, settings: PredictSettings, message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        check_options(TASKS[task], settings)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("regress", PredictSettings(max_length=8, batch_size=1, top=1, precision="fp32")),
        ("tag", PredictSettings(aggregation="max", long_text="head")),
        ("answer", PredictSettings(no_answer_threshold=1.0)),
        ("generate", PredictSettings(beam=2, length_penalty=0.0, max_new_tokens=2)),
        ("generate", PredictSettings(sample=True, temperature=0.5, top_k=3, top_p=0.5, seed=1)),
    ],
)
def test_options_that_a_task_has(task: str, settings: PredictSettings) -> None:
    check_options(TASKS[task], settings)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (PredictSettings(), 256),
        (PredictSettings(beam=5), 256),
        (PredictSettings(beam=16), 64),
        (PredictSettings(beam=1000, batch_size=8), 1),
        (PredictSettings(sample=True, top=8), 128),
        (PredictSettings(top=100, beam=100), 10),
    ],
)
def test_fewer_texts_at_once_where_many_are_written_for_each(
    settings: PredictSettings, most: int, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, float]] = []

    def spy(
        lengths: list[int], *, batch_tokens: int, max_items: int, most_padding: float
    ) -> list[list[int]]:
        given.append((max_items, most_padding))
        return [list(range(len(lengths)))]

    model = BertLMHeadModel.from_pretrained(tiny_model, is_decoder=True)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    record = RunRecord(
        task="generate", goal={"pairs": False}, max_length=8, settings={}, data=[], versions={}
    )
    settings = replace(settings, max_new_tokens=1)
    predict = Predictor(model, tokenizer, record, settings)
    monkeypatch.setattr(predictor, "plan_pass", spy)
    assert len(predict(["the sky"])) == 1
    assert given == [(most, math.inf)]  # and whatever their lengths


def test_a_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UserError, match="no text: give"):
        records_of(TASKS["translate"], [], None, ColumnSettings())
    with pytest.raises(UserError, match="standard input: closed"):
        next(read_lines(STDIN))


def test_columns_are_of_files() -> None:
    columns = ColumnSettings(text="message")
    with pytest.raises(UserError, match="the options of columns are for --input"):
        records_of(TASKS["classify"], ["a text"], None, columns)


@pytest.mark.parametrize("name", ["classify", "regress"])
def test_a_run_on_pairs_wants_pairs_and_one_on_single_texts_does_not(
    name: str, tiny_model: Path
) -> None:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    task, own = TASKS[name], {"classify": ClassifySettings(), "regress": RegressSettings()}[name]
    single, pair = task.from_texts(["a", "b"]), task.from_texts([("a", "b"), ("c", "d")])
    labelled = [replace(one, labels=(str(number),)) for number, one in enumerate(pair)]
    goal = task.goal_of(labelled, ColumnSettings(text_pair="b"), own)
    assert len(list(task.encode(pair, goal, tokenizer, FIT, False))) == 2
    with pytest.raises(UserError, match="text, line 1: expected a pair"):
        list(task.encode(single, goal, tokenizer, FIT, False))
    goal = task.goal_of(labelled, ColumnSettings(), own)
    with pytest.raises(UserError, match="text, line 1: expected a single text"):
        list(task.encode(pair, goal, tokenizer, FIT, False))


def test_what_writes_reads_single_texts() -> None:
    with pytest.raises(UserError, match="generate reads single texts, not pairs"):
        generate.from_texts([("a text", "a context")])


def test_a_number_is_one_an_item() -> None:
    records = from_texts(["a text"])
    with pytest.raises(UserError, match="leave out --label-separator"):
        regress.goal_of(records, ColumnSettings(label_separator=";"), RegressSettings())


def test_a_number_whose_square_is_none_is_refused() -> None:
    (one,) = from_texts(["a text"])
    assert regress.target(replace(one, labels=("-1e15",))) == -1e15
    with pytest.raises(UserError, match=r"line 1: expected a number, found '1e39'; it may be up"):
        regress.target(replace(one, labels=("1e39",)))


def test_one_text_is_written_for_one_read() -> None:
    (one,) = generate.from_texts(["a text"])
    with pytest.raises(UserError, match="text, line 1: 2 texts to write, expected 1"):
        generate.check(replace(one, labels=("a", "b")), generate.Goal(pairs=True))

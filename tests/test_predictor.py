"""Options of a predictor that would have no effect are refused, not ignored."""

import copy
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.golden.copies import LATEST

import heedful
from heedful import predictor
from heedful.answer_options import check_options
from heedful.checkpoints.runs import RunRecord
from heedful.commands.inputs import records_of
from heedful.errors import UserError
from heedful.models import BertLMHeadModel
from heedful.predictor import Predictor
from heedful.reading.lines import STDIN, read_lines
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    PredictSettings,
    RegressSettings,
    RunSettings,
    TrainSettings,
)
from heedful.task import AnyTask, LengthLimit, Recipe
from heedful.tasks import regress
from heedful.tasks.answer import Answer
from heedful.tasks.classify import Classify
from heedful.tasks.generate import Generate
from heedful.tasks.regress import Regress
from heedful.tasks.tag import Tag
from heedful.tasks.texts import text_records
from heedful.tasks.translate import Translate
from heedful.tokens import BertTokenizer

EACH: dict[str, AnyTask] = {
    "classify": Classify(labels=("a", "b"), multi_label=False),
    "regress": Regress(mean=0.0, lowest=0.0, highest=1.0),
    "tag": Tag(labels=("O", "B-x", "I-x"), scheme="BIO", label_pieces="first"),
    "answer": Answer(no_answer=False, threshold=0.0, stride=1, max_answer_tokens=3),
    "generate": Generate(pairs=False),
    "translate": Translate(longest=8),
}
FIT = LengthLimit(max_length=16, long_text="head")


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("classify", PredictSettings(beam=2), "--beam has no effect on a classify run"),
        ("regress", PredictSettings(top=1), "--top has no effect on a regress run"),
        (
            "tag",
            PredictSettings(no_answer_threshold=0.0),
            "--no-answer-threshold has no effect",
        ),
        ("answer", PredictSettings(aggregation="max"), "--aggregation has no effect on a"),
        ("generate", PredictSettings(top_p=0.5), "--top-p needs --sample"),
        (
            "generate",
            PredictSettings(beam=2, sample=True),
            "--beam is for a search, not for --sample",
        ),
        (
            "translate",
            PredictSettings(coverage_penalty=0.1, sample=True),
            "--coverage-penalty is for a search, not",
        ),
    ],
)
def test_options_that_would_change_nothing(
    task: str, settings: PredictSettings, message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        check_options(EACH[task], settings)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("regress", PredictSettings(max_length=8, batch_size=1, precision="fp32")),
        ("answer", PredictSettings(top=1)),
        ("tag", PredictSettings(aggregation="max", long_text="head")),
        ("answer", PredictSettings(no_answer_threshold=1.0)),
        ("generate", PredictSettings(beam=2, length_penalty=0.0, max_new_tokens=2)),
        ("generate", PredictSettings(sample=True, temperature=0.5, top_k=3, top_p=0.5, seed=1)),
        (
            "generate",
            PredictSettings(no_repeat_ngram=3, repetition_penalty=1.2, min_new_tokens=2),
        ),
    ],
)
def test_options_that_a_task_has(task: str, settings: PredictSettings) -> None:
    check_options(EACH[task], settings)


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
        lengths: list[int], *, batch_tokens: int, max_items: int, max_padding: float
    ) -> list[list[int]]:
        given.append((max_items, max_padding))
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
        records_of(EACH["translate"], [], (), ColumnSettings())
    with pytest.raises(UserError, match="standard input: closed"):
        next(read_lines(STDIN))


def test_columns_are_of_files() -> None:
    columns = ColumnSettings(text="message")
    with pytest.raises(UserError, match="column options are for --input"):
        records_of(EACH["classify"], ["a text"], (), columns)


@pytest.mark.parametrize(
    ("single", "double"),
    [
        (EACH["classify"], Classify(labels=("a", "b"), multi_label=False, pairs=True)),
        (EACH["regress"], Regress(mean=0.0, lowest=0.0, highest=1.0, pairs=True)),
    ],
)
def test_a_run_on_pairs_wants_pairs_and_one_on_single_texts_does_not(
    single: AnyTask, double: AnyTask, tiny_model: Path
) -> None:
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    texts, pairs = text_records(["a", "b"]), text_records([("a", "b"), ("c", "d")])
    assert len(list(double.encode(pairs, tokenizer, FIT, labelled=False))) == 2
    with pytest.raises(UserError, match="text, line 1: expected a pair"):
        list(double.encode(texts, tokenizer, FIT, labelled=False))
    with pytest.raises(UserError, match="text, line 1: expected a single text"):
        list(single.encode(pairs, tokenizer, FIT, labelled=False))


def test_what_writes_reads_single_texts() -> None:
    with pytest.raises(UserError, match="generate takes single texts, not pairs"):
        Generate.from_texts([("a text", "a context")])


def test_a_number_is_one_an_item() -> None:
    recipe = Recipe(
        data=DataSettings(train=[]),
        options=RegressSettings(),
        columns=ColumnSettings(label_separator=";"),
        training=TrainSettings(),
        run=RunSettings(out=Path("run")),
    )
    with pytest.raises(UserError, match="leave out --label-separator"):
        Regress.from_training_data(recipe)


def test_a_number_whose_square_is_none_is_refused() -> None:
    (one,) = text_records(["a text"])
    assert regress.target(replace(one, labels=("-1e15",))) == -1e15
    with pytest.raises(
        UserError, match=r"line 1: expected a number, found '1e39'; its absolute value"
    ):
        regress.target(replace(one, labels=("1e39",)))
    for label in ("1_000", "nan", "-inf"):
        with pytest.raises(UserError, match=f"expected a number, found '{label}'"):
            regress.target(replace(one, labels=(label,)))


def test_one_text_is_written_for_one_read() -> None:
    (one,) = Generate.from_texts(["a text"])
    with pytest.raises(UserError, match="text, line 1: 2 target texts, expected 1"):
        Generate(pairs=True).check(replace(one, labels=("a", "b")))


@pytest.mark.parametrize(
    ("option", "choice", "near"),
    [
        ("long_text", "windows", "window"),
        ("precision", "bf61", "bf16"),
        ("aggregation", "average ", "average"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(option: str, choice: str, near: str) -> None:
    run = Path(__file__).parent / "golden" / "0.1.0" / "classify"
    with pytest.raises(UserError, match=f"unknown {option} '{choice}' .did you mean '{near}'"):
        heedful.load(run, **{option: choice})


def test_a_call_has_options_of_its_own(tiny_model: Path) -> None:
    model = BertLMHeadModel.from_pretrained(tiny_model, is_decoder=True)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    record = RunRecord(
        task="generate", goal={"pairs": False}, max_length=8, settings={}, data=[], versions={}
    )
    predict = Predictor(model, tokenizer, record, PredictSettings(precision="fp32"))
    assert len(predict("the sky", beam=3, top=3, max_new_tokens=2).n_best) == 3
    assert len(predict("the sky", max_new_tokens=2).n_best) == 4  # as loaded: a beam of 4
    with pytest.raises(UserError, match=r"unknown option 'beem' \(did you mean 'beam'"):
        predict("the sky", beem=3)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="precision is set when a run is loaded"):
        predict("the sky", precision="bf16")


GOLDEN = Path(__file__).parent / "golden/0.1.0/classify"
TEXTS = ["bread", "a train to the sea", "soup", "rain", "the station", "cheese and bread", "wind"]


def test_an_option_of_a_call_is_checked_as_one_of_the_run() -> None:
    predict = Predictor.load(GOLDEN)
    assert sum(predict("bread").scores.values()) == pytest.approx(1)
    assert sum(predict("bread", raw=True).scores.values()) != pytest.approx(1)
    with pytest.raises(UserError, match="beam has no effect"):
        predict("bread", beam=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 2.5}, r"top is 2\.5: expected a whole number"),
        ({"max_length": "12"}, "max_length is '12': expected a whole number or None"),
        ({"batch_size": None}, "batch_size is None: expected a whole number"),
        ({"raw": "no"}, "raw is 'no': expected True or False"),
        ({"targets": "red"}, "targets is 'red': expected a list of text"),
        ({"targets": ["red", 3]}, "targets is 3: expected text"),
        ({"long_text": None}, "long_text is None: expected 'window', "),
    ],
)
def test_an_option_of_another_type_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        heedful.load(GOLDEN, **options)
    with pytest.raises(UserError, match=f"^{message}"):
        heedful.load(GOLDEN)("bread", **options)


def test_options_may_be_lists_and_numbers_of_numpy() -> None:
    masked = heedful.load(GOLDEN.with_name("masked"))
    one, two = (masked("the [MASK] cat", targets=kind(["cat", "red"])) for kind in (list, tuple))
    assert one == two
    assert len(masked("the [MASK] cat", top=np.int64(2)).blanks[0].candidates) == 2


class Frame:
    """A stand-in for a pandas table: it iterates over the names of its columns."""

    columns = ("text",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


A_TEXT = r"expected a text, or a list of them, found a"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"text": "bread"}, rf"{A_TEXT} dict; give the column of texts: model\(data\['text'\]\)"),
        (Frame(), f"{A_TEXT} Frame; give the column of texts"),
        (3, "expected a text, or a list of them, found the number 3"),
        (np.array("bread"), "expected a text, or a list of them, found a value of type ndarray"),
        (Path("bread"), "text 1: expected text, found a value of type"),
        (["a", None], "text 2: expected text, found null"),
        (pa.array(["a", None]), "text 2: expected text, found null"),
        (pa.table({"text": ["a"]}), f"{A_TEXT} Table; give the column of texts"),
        ([{"text": "a"}], "text 1: expected text, found a dict; give the text in it"),
        ([b"a"], "text 1: expected text, found a value of type bytes"),
        (["a", ("b", None)], "text 2: expected only texts in it, found null"),
        (["a", torch.tensor(3)], "text 2: expected text, found a value of type Tensor"),
        (["a", np.array("b")], "text 2: expected text, found a value of type ndarray"),
        (("a",), "text 1: a list of 1 text; give a single text, or two"),
        (["a"] * 5000 + [3], "text 5001: expected text, found the number 3"),
    ],
)
def test_what_is_no_text_is_refused(texts: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        heedful.load(GOLDEN)(texts)


def test_texts_may_be_given_in_many_ways() -> None:
    predict = heedful.load(GOLDEN)
    expected = predict(TEXTS)
    for given in (
        iter(TEXTS),
        tuple(TEXTS).__iter__(),
        np.array(TEXTS),
        dict.fromkeys(TEXTS).keys(),
        pa.array(TEXTS),
        pa.array(TEXTS).dictionary_encode(),
        pa.table({"text": TEXTS})["text"],
        [pa.scalar(text) for text in TEXTS],
    ):
        assert predict(given) == expected
    assert list(predict.predict(pa.array(TEXTS))) == expected
    assert predict(np.array(TEXTS)) == predict(text for text in TEXTS) == expected
    pairs = heedful.load(GOLDEN.with_name("pair"))
    assert (
        pairs(np.array([["a cat", "a dog"]]))
        == pairs([("a cat", "a dog")])
        == pairs([["a cat", "a dog"]])
    )


def test_a_predictor_shows_what_it_does() -> None:
    shown = repr(heedful.load(GOLDEN))
    assert shown.startswith("<Predictor 'classify': Gives each text one of 3 labels")


@pytest.mark.parametrize(("option", "instead"), [("all_scores", "to_dict"), ("plain", "plain")])
def test_what_a_command_prints_is_found_in_the_answer(option: str, instead: str) -> None:
    options: dict[str, Any] = {option: True}
    for call in (partial(heedful.load, GOLDEN), partial(heedful.load(GOLDEN), "bread")):
        with pytest.raises(UserError, match=f"^{option} is only .*; call {instead}"):
            call(**options)


def test_predict_takes_no_single_text() -> None:
    for alone in ("bread", b"bread", np.str_("bread"), Path("bread.png")):
        with pytest.raises(
            UserError, match=r"^predict takes a list, found a single item; for one item, call model"
        ):
            heedful.load(GOLDEN).predict(alone)  # type: ignore[arg-type]


def test_predict_tells_at_once_what_is_wrong_with_a_call() -> None:
    with pytest.raises(UserError, match=r"^unknown option 'beem'"):
        heedful.load(GOLDEN).predict(TEXTS, beem=3)  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"^top_p needs sample"):
        next(heedful.load(GOLDEN.with_name("writer")).predict(TEXTS, top_p=0.5))


def test_an_explanation_is_of_a_text() -> None:
    with pytest.raises(UserError, match="text 1: expected text, found a dict"):
        heedful.explain(GOLDEN, {"text": "bread"})  # type: ignore[arg-type]


def test_an_installed_model_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "resolve", lambda name: LATEST / "sentences")
    assert Predictor.load("minilm").name == "minilm"
    assert Predictor.load(LATEST / "sentences").name == "sentences"


def test_a_replaced_layer_answers() -> None:
    predictor = Predictor.load(GOLDEN, PredictSettings(precision="fp32"))
    text = "a train to the sea"
    before = max(predictor(text).scores.values())
    model: Any = predictor.model
    classifier = copy.deepcopy(model.classifier)
    for weight in classifier.parameters():
        torch.nn.init.zeros_(weight)
    model.classifier = classifier
    assert predictor.kernel == "plain"
    assert "replaced" in predictor.compiled.reason
    after = predictor(text).scores
    assert max(after.values()) == pytest.approx(1 / len(after)) != before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_length": 0}, "--max-length 0: must be a whole number of at least 1"),
        ({"temperature": 1e300}, "--temperature 1e+300: must be above 0 and at most 1e9"),
        ({"coverage_penalty": 1e7}, "must be from 0 to 1e6"),
        ({"repetition_penalty": 0.5}, "--repetition-penalty 0.5: must be from 1 to 1e6"),
        ({"no_answer_threshold": 1e10}, "must be from -1e9 to 1e9"),
    ],
)
def test_numbers_out_of_range_are_refused_with_the_range(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        PredictSettings(**options)


def test_a_predictor_can_be_pickled_and_copied() -> None:
    predictor = Predictor.load(GOLDEN)
    texts = ["a good film", "a bad one"]
    expected = predictor(texts)
    for again in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor)):
        assert again.kernel == predictor.kernel
        for one, other in zip(again(texts), expected, strict=True):
            assert one.label == other.label
            assert one.scores == pytest.approx(other.scores)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
def test_a_process_that_was_forked_answers() -> None:
    program = (
        "import multiprocessing, sys, heedful, torch\n"
        "torch.set_num_threads(2)\n"
        f"predict = heedful.load({str(GOLDEN)!r})\n"
        "torch.ones(1000, 1000).softmax(-1)  # by threads that the other process has not\n"
        "process = multiprocessing.get_context('fork').Process(target=predict, args=(['bread'],))\n"
        "process.start()\n"
        "process.join(60)\n"
        "process.kill()\n"
        "sys.exit(process.exitcode != 0)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_text_is_named_by_its_place_among_all() -> None:
    predictor = Predictor.load(GOLDEN)
    texts = ["good"] * 4200
    texts[4150] = "good " * 200
    with pytest.raises(UserError, match="line 4151"):
        list(predictor.predict(texts, long_text="refuse"))


@pytest.mark.parametrize("run", ["classify", "translate", "replies"])
def test_a_callers_autocast_has_no_effect(run: str) -> None:
    model = heedful.load(LATEST / run, precision="fp32")
    expected = model("the red cat")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model("the red cat") == expected

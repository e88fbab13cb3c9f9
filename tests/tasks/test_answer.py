"""Question answering from the command line on small files, its parts, and its wrong input."""

import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.alike import assert_same_scores
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder
from torch import Tensor

import heedful
from heedful.batches import Draw, Example, Fitted
from heedful.cli import run
from heedful.decoding.spans import Span
from heedful.errors import UserError
from heedful.models import BertForQuestionAnswering
from heedful.reading.squad import GoldAnswer, Question, read_questions
from heedful.settings import LongText, PredictSettings
from heedful.sources import resolve
from heedful.task import LengthLimit
from heedful.tasks.answer import Answer
from heedful.tasks.answers.candidates import CANDIDATES, SpanAnswer, span_probabilities
from heedful.tokens import BertTokenizer, Tokenizer, Vocabulary, load_encoder_tokenizer

Out = pytest.CaptureFixture[str]

TASK = Answer(no_answer=True, threshold=0.0, stride=128, max_answer_tokens=30)
LONG = "The grass is green.  " * 9 + "The sky is very blue.\n" + "The grass is green! " * 6


@pytest.fixture
def tokenizer(tiny_model: Path) -> BertTokenizer:
    return BertTokenizer.from_pretrained(tiny_model)


def asked(question: str, context: str, *answers: str) -> Question:
    found = tuple(GoldAnswer(text=text, start=context.index(text)) for text in answers)
    return Question(question=question, context=context, answers=found, where="here")


def encoded(
    record: Question,
    tokenizer: Tokenizer,
    *,
    max_length: int = 40,
    rule: LongText = "window",
    stride: int = 128,
    labelled: bool = True,
) -> Fitted[Example]:
    fit = LengthLimit(max_length=max_length, long_text=rule)
    (fitted,) = replace(TASK, stride=stride).encode([record], tokenizer, fit, labelled=labelled)
    return fitted


# Examples.


def test_a_short_context_is_what_the_tokenizer_gives(tokenizer: BertTokenizer) -> None:
    record = asked("Is the sky red?", "The sky is  Very Blue.", "Very Blue")
    fitted = encoded(record, tokenizer)
    (example,), (offsets,) = fitted.pieces, fitted.offsets
    wanted = tokenizer(record.question, record.context, return_offsets_mapping=True)
    assert example.ids.tolist() == wanted["input_ids"]
    assert example.split == wanted["token_type_ids"].index(1)
    assert offsets[example.split : -1].tolist() == [
        list(place) for place in wanted["offset_mapping"][example.split : -1]
    ]
    assert (offsets[: example.split] == -1).all()
    assert (offsets[-1] == -1).all()
    first, last = (int(place) for place in example.labels)
    assert record.context[offsets[first, 0] : offsets[last, 1]] == "Very Blue"
    assert fitted.tokens_total == fitted.tokens_used == len(example.ids) - 3


@pytest.mark.parametrize("stride", [0, 5, 128])
def test_a_long_context_is_read_in_windows_beside_the_whole_question(
    tokenizer: BertTokenizer, stride: int
) -> None:
    record = asked("Is the sky blue?", LONG, "very blue")
    question = tokenizer.encode("Is the sky blue?")
    fitted = encoded(record, tokenizer, max_length=24, stride=stride)
    room = 24 - len(question) - 1
    context = tokenizer.encode_batch([LONG])[0]
    starts = [*range(0, len(context) - room, room - min(stride, room // 2)), len(context) - room]
    assert [example.ids.tolist() for example in fitted.pieces] == [
        [*question, *context[start : start + room], tokenizer.sep_token_id] for start in starts
    ]
    learnt = []
    for example, offsets in zip(fitted.pieces, fitted.offsets, strict=True):
        first, last = (int(place) for place in example.labels)
        if (first, last) != (0, 0):
            learnt.append(LONG[offsets[first, 0] : offsets[last, 1]])
    assert learnt
    assert set(learnt) == {"very blue"}
    assert len(learnt) < len(starts)  # the other windows learn that there is no answer
    assert fitted.tokens_total == fitted.tokens_used == len(context) + len(question) - 2


def test_the_head_alone_is_read_if_asked_for(tokenizer: BertTokenizer) -> None:
    record = asked("Is the sky blue?", LONG, "very blue")
    fitted = encoded(record, tokenizer, max_length=24, rule="head")
    (example,) = fitted.pieces
    assert len(example.ids) == 24
    assert example.labels == (0, 0)
    assert fitted.tokens_used == 24 - 3 < fitted.tokens_total


def test_the_answer_that_most_gave_is_learnt(tokenizer: BertTokenizer) -> None:
    context = "the sky is blue"
    for answers in (["sky", "blue", "blue"], ["blue", "sky"]):
        (example,) = encoded(asked("a?", context, *answers), tokenizer).pieces
        assert tokenizer.decode([int(example.ids[int(example.labels[0])])]) == "blue"


@pytest.mark.parametrize(
    ("part", "tokens"), [("ky' wa", "sky'was"), ("sky", "sky"), ("blue", "blue"), ("e?", "blue?")]
)
def test_the_tokens_of_an_answer_are_those_it_stands_in(
    tokenizer: BertTokenizer, part: str, tokens: str
) -> None:
    (example,) = encoded(asked("a?", "the 'sky' was blue?", part), tokenizer).pieces
    first, last = (int(place) for place in example.labels)
    assert tokenizer.decode(example.ids[first : last + 1].tolist()).replace(" ?", "?") == tokens


@pytest.mark.parametrize(
    ("context", "answer"),
    [("le cafe\u0301 noir", "cafe\u0301"), ("he said हिन्दु now", "हिन्दु"), ("so e\u0301", "e\u0301")],
)
def test_an_answer_has_the_accents_that_the_tokenizer_drops(
    tokenizer: BertTokenizer, context: str, answer: str
) -> None:
    fitted = encoded(asked("a?", context, answer), tokenizer)
    first, last = (int(place) for place in fitted.pieces[0].labels)
    (start, _), (_, end) = fitted.offsets[0][[first, last]].tolist()
    assert context[start:end] == answer
    outputs = torch.zeros(len(fitted.pieces[0].ids), 2)
    outputs[first, 0] = outputs[last, 1] = 9.0
    record = asked("a?", context)
    found = TASK.decode(record, fitted, [outputs], PredictSettings(), tokenizer)
    assert (found.answer, found.start, found.end) == (answer, start, end)


def test_no_answer_is_the_first_token(tokenizer: BertTokenizer) -> None:
    (example,) = encoded(asked("a?", "the sky"), tokenizer).pieces
    assert example.labels == (0, 0)


def test_no_answer_is_the_class_token_where_that_comes_last(tmp_path: Path) -> None:
    write_folder("xlnet", tmp_path / "model")
    tokenizer = load_encoder_tokenizer(tmp_path / "model")
    (example,) = encoded(asked("a?", "the sky"), tokenizer).pieces
    assert example.ids[-1] == tokenizer.cls_token_id
    assert example.labels == (len(example.ids) - 1,) * 2
    scores = torch.zeros(len(example.ids), 2)
    scores[-1] = 9.0
    fitted = encoded(asked("a?", "the sky"), tokenizer)
    answer = TASK.decode(asked("a?", "the sky"), fitted, [scores], PredictSettings(), tokenizer)
    assert answer.answer is None


def test_questions_of_one_context_and_of_others(tokenizer: BertTokenizer) -> None:
    records = [asked("sky?", LONG), asked("a?", LONG), asked("a?", "the sky")]
    fit = LengthLimit(max_length=24, long_text="window")
    together = list(TASK.encode(records, tokenizer, fit, labelled=False))
    for record, fitted in zip(records, together, strict=True):
        alone = encoded(record, tokenizer, max_length=24, labelled=False)
        for one, other in zip(fitted.pieces, alone.pieces, strict=True):
            assert one.ids.tolist() == other.ids.tolist()


def test_a_question_may_take_half_of_the_room(tokenizer: BertTokenizer) -> None:
    words = ["sky"] * 11
    assert len(encoded(asked(" ".join(words), LONG), tokenizer, max_length=24).pieces) > 1
    assert len(encoded(asked(" ".join(words * 3), "a"), tokenizer, max_length=40).pieces) == 1
    with pytest.raises(
        UserError,
        match=r"^here: the question has 12 tokens; with --max-length 24 it may have at most 11",
    ):
        encoded(asked("sky " * 12, LONG), tokenizer, max_length=24)


def test_an_answer_without_tokens(tokenizer: BertTokenizer) -> None:
    record = asked("a?", "the \u200b\u200b sky", "\u200b")
    with pytest.raises(
        UserError, match=r"^here: the answer '\\u200b' has no characters that the tokenizer reads$"
    ):
        encoded(record, tokenizer)
    assert encoded(record, tokenizer, labelled=False).pieces


def test_answers_of_real_data_are_slices(data_folder: Path) -> None:
    tokenizer = BertTokenizer.from_pretrained(resolve("minilm"))
    records = list(read_questions([data_folder / "squad" / "xquad.en.json.gz"]))
    fit = LengthLimit(max_length=128, long_text="window")
    for record, fitted in zip(
        records, TASK.encode(records, tokenizer, fit, labelled=True), strict=True
    ):
        ((right,), learnt) = record.answers or (), set()
        for example, offsets in zip(fitted.pieces, fitted.offsets, strict=True):
            first, last = (int(place) for place in example.labels)
            if (first, last) != (0, 0):
                learnt.add(record.context[offsets[first, 0] : offsets[last, 1]])
        assert len(learnt) == 1 or len(right.text) > 100, record.where
        assert all(right.text.strip() in text for text in learnt), record.where


# Training.


def test_the_loss_is_the_reference_s_and_knows_no_padding(
    tokenizer: BertTokenizer, tiny_model: Path
) -> None:
    model = BertForQuestionAnswering.from_pretrained(tiny_model).double()
    records = [
        asked("a?", "the sky is very blue", "blue"),
        asked("is grass red?", "grass is green", "green"),
        asked("sky?", "the sky"),
    ]
    examples = [encoded(record, tokenizer).pieces[0] for record in records]
    draw = Draw(seed=0, epoch=0, rows=np.arange(3))
    batch = TASK.batch(examples, tokenizer, draw)
    total = TASK.loss(model, batch)
    assert TASK.loss_divisor(batch) == 6
    alone = 0.0
    for example in examples:
        one = TASK.batch([example], tokenizer, draw)
        ends = one.targets["spans"]
        mean = model(**one.inputs, start_positions=ends[:, 0], end_positions=ends[:, 1]).loss
        alone += 2 * mean.item()
    assert total.item() == pytest.approx(alone, rel=1e-12)
    total.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_task_knows_whether_some_questions_have_no_answer(tmp_path: Path) -> None:
    def decided(*answers: list[dict[str, object]], threshold: float = 1.5) -> Answer:
        rows = [{"question": "a?", "context": "the sky", "answers": each} for each in answers]
        path = tmp_path / "questions.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {"stride": 7, "no_answer_threshold": threshold, "max_answer_tokens": 4}
        return Answer.from_training_data(tiny.recipe("answer", [path], **options))

    sky: dict[str, object] = {"text": "sky", "start": 4}
    task = Answer(no_answer=False, threshold=0.0, stride=7, max_answer_tokens=4)
    assert decided([sky], threshold=0.0) == task
    assert decided([], [sky]) == replace(task, no_answer=True, threshold=1.5)
    with pytest.raises(UserError, match="--no-answer-threshold is for questions without an answer"):
        decided([sky])
    with pytest.raises(UserError, match="no question of the training data has an answer"):
        decided([])


# Answers.


def decoded(
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    context: str,
    task: Answer = TASK,
    settings: PredictSettings = PredictSettings(),  # noqa: B008
) -> SpanAnswer:
    record = Question(question="", context=context, answers=None, where="here")
    tokenizer = BertTokenizer(Vocabulary(tiny.SPECIAL))  # it is asked for its layout alone
    return task.decode(record, fitted, outputs, settings, tokenizer)


def silent_outputs(fitted: Fitted[Example], longest: int = 40) -> list[Tensor]:
    """Return scores of zero, padded with values that must never be read."""
    outputs = []
    for example in fitted.pieces:
        scores = torch.full((longest, 2), 1000.0)
        scores[: len(example.ids)] = 0
        outputs.append(scores)
    return outputs


def place_of(fitted: Fitted[Example], window: int, start: int) -> int:
    """Return the token of a window that starts at a character."""
    (place,) = np.nonzero(fitted.offsets[window][:, 0] == start)[0]
    return int(place)


def test_an_answer_is_a_slice_of_the_user_s_text(tokenizer: BertTokenizer) -> None:
    context = "The sky\t is  VERY\n Blue, a sky."
    fitted = encoded(asked("sky?", context), tokenizer)
    outputs = silent_outputs(fitted)
    outputs[0][place_of(fitted, 0, context.index("VERY")), 0] = 5
    outputs[0][place_of(fitted, 0, context.index("Blue")), 1] = 4
    outputs[0][0] = -1  # no answer
    outputs[0][2] = 99  # the question is no answer
    found = decoded(fitted, outputs, context)
    assert (found.answer, found.start, found.end) == ("VERY\n Blue", 13, 23)
    assert context[found.start : found.end] == found.answer == found.best
    assert found.margin == -2 - 9
    assert found.plain() == "VERY Blue"
    assert len(found.n_best) == 5
    assert_same_bits(found.score, found.n_best[0].score, "moved")
    every = decoded(fitted, outputs, context, settings=PredictSettings(top=1000)).n_best
    assert [one.score for one in every] == sorted((one.score for one in every), reverse=True)
    (silence,) = [one.score for one in every if one.answer is None]
    shares = [one.score for one in every if one.answer is not None]
    assert len(shares) > CANDIDATES
    assert silence + sum(shares[:CANDIDATES]) == pytest.approx(1)


def test_windows_are_merged(tokenizer: BertTokenizer) -> None:
    fitted = encoded(asked("Is the sky blue?", LONG), tokenizer, max_length=24)
    outputs = silent_outputs(fitted)
    start = LONG.index("very blue")
    # Every window that sees the answer says so; it is found once.
    for window, offsets in enumerate(fitted.offsets):
        outputs[window][0] = 3 + window  # the least sure of there being none counts
        if start in offsets[:, 0] and start + 5 in offsets[:, 0]:
            outputs[window][place_of(fitted, window, start), 0] = 7
            outputs[window][place_of(fitted, window, start + 5), 1] = 7
    found = decoded(fitted, outputs, LONG)
    assert found.answer == "very blue"
    assert found.start == start
    assert found.windows == len(outputs) > 3
    assert found.margin == 6 - 14
    places = [(one.start, one.end) for one in found.n_best]
    assert len(set(places)) == len(places)


def test_a_threshold_decides_between_an_answer_and_none(tokenizer: BertTokenizer) -> None:
    context = "the sky is blue"
    fitted = encoded(asked("sky?", context), tokenizer)
    outputs = silent_outputs(fitted)
    outputs[0][place_of(fitted, 0, 11)] = 1
    outputs[0][0] = 2  # so that giving none is 2 better than "blue"
    none = decoded(fitted, outputs, context)
    assert (none.answer, none.start, none.end, none.best) == (None, None, None, "blue")
    assert none.margin == 2
    assert none.n_best[0].answer is None
    assert_same_bits(none.score, none.n_best[0].score, "moved")
    assert none.plain() == ""
    assert decoded(fitted, outputs, context, replace(TASK, threshold=2.0)).answer == "blue"
    settings = PredictSettings(no_answer_threshold=2.5)
    assert decoded(fitted, outputs, context, settings=settings).answer == "blue"
    settings = PredictSettings(no_answer_threshold=1.5)
    assert decoded(fitted, outputs, context, replace(TASK, threshold=9), settings).answer is None


def test_who_learnt_from_answers_alone_always_answers(tokenizer: BertTokenizer) -> None:
    context = "the sky is blue"
    task = replace(TASK, no_answer=False)
    fitted = encoded(asked("sky?", context), tokenizer)
    outputs = silent_outputs(fitted)
    outputs[0][0] = 9
    found = decoded(fitted, outputs, context, task)
    assert (found.answer, found.margin) == ("the", None)
    assert all(one.answer is not None for one in found.n_best)
    with pytest.raises(UserError, match="--no-answer-threshold: this run was trained without"):
        decoded(fitted, outputs, context, task, PredictSettings(no_answer_threshold=0.0))


def test_a_context_with_nothing_to_read_has_no_answer(tokenizer: BertTokenizer) -> None:
    fitted = encoded(asked("sky?", "\u200b"), tokenizer)
    found = decoded(fitted, silent_outputs(fitted), "\u200b", replace(TASK, no_answer=False))
    assert (found.answer, found.best, found.score) == (None, "", 1)


def test_a_damaged_model_is_named(tokenizer: BertTokenizer) -> None:
    fitted = encoded(asked("sky?", "the sky"), tokenizer)
    outputs = [torch.full((40, 2), torch.nan)]
    with pytest.raises(UserError, match="the model is damaged"):
        decoded(fitted, outputs, "the sky")


# The command line.


def colour_questions() -> list[dict[str, Any]]:
    rows = []
    for thing in ("sky", "grass", "apple"):
        for colour in ("red", "green", "blue", None):
            for words in ("is", "was very", "is very very"):
                context = f"the {thing} {words} {colour or 'a'}."
                answers = [{"text": colour, "start": context.index(colour)}] if colour else []
                question = f"a {thing} is?"
                rows.append({"question": question, "context": context, "answers": answers})
    return rows


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide questions for the colour of a thing, a quarter of them without an answer."""
    path = tmp_path_factory.mktemp("questions") / "colours.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in colour_questions()))
    return path


def train(tiny_model: Path, data: Path, out: Path, *more: object) -> int:
    words = ["train", "answer", "--model", tiny_model, "--train", data, "--out", out]
    words += ["--epochs", "20", "--batch-size", "9", "--learning-rate", "1e-2", "--dropout", "0"]
    words += ["--head-learning-rate", "1e-2", "--precision", "fp32", *more]
    return run([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(tiny_model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a finished run."""
    out = tmp_path_factory.mktemp("runs") / "answers"
    assert train(tiny_model, questions, out, "--stride", "6", "--max-length", "24") == 0
    return out


def test_evaluate(trained: Path, questions: Path, capsys: Out) -> None:
    assert run(["evaluate", str(trained), "--data", str(questions)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["exact_match"] == scores["f1"] == 1
    assert scores["answerable"] == {"items": 27, "exact_match": 1.0, "f1": 1.0}
    assert scores["unanswerable"] == {"items": 9, "exact_match": 1.0, "f1": 1.0}
    assert scores["best_threshold"]["f1"] == 1
    assert_same_scores(scores, json.loads((trained / "metrics.json").read_text()))


def test_a_threshold_lets_a_run_of_unknown_training_data_give_no_answer(
    trained: Path, questions: Path, tmp_path: Path
) -> None:
    run_folder = Path(shutil.copytree(trained, tmp_path / "run"))
    record = json.loads((run_folder / "heedful.json").read_text())
    record["goal"]["no_answer"] = None
    (run_folder / "heedful.json").write_text(json.dumps(record))
    assert "best_threshold" not in heedful.evaluate(run_folder, questions)
    scores = heedful.evaluate(run_folder, questions, no_answer_threshold=0.0)
    assert scores["best_threshold"] == heedful.evaluate(trained, questions)["best_threshold"]


def test_predict(trained: Path, tmp_path: Path, capsys: Out) -> None:
    context = "The apple was very\n Blue."
    file = tmp_path / "context.txt"
    file.write_text(context)
    wanted = {"answer": "Blue", "start": 20, "end": 24}
    for given in (["--context", context], ["--context-file", str(file)]):
        assert run(["predict", str(trained), "an apple is?", *given]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found.pop("score") > 0.5
        assert found.pop("tokens_total") == found.pop("tokens_used")
        assert found == wanted
    words = ["predict", str(trained), "a sky is?", "--context", "the sky is a.", "--all-scores"]
    assert run([*words, "--top", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["start"], found["end"]) == (None, None, None)
    assert found["margin"] > 0
    assert [one["answer"] for one in found["n_best"]].count(None) == 1
    assert len(found["n_best"]) == 2
    assert run([*words[:-1], "--no-answer-threshold", "1000", "--plain"]) == 0
    assert capsys.readouterr().out.strip()


def test_predict_a_long_text(trained: Path) -> None:
    context = "the grass was very very a. " * 6 + "the sky is BLUE. " + "the apple was a. " * 9
    found = heedful.load(trained)(("a sky is?", context))
    assert (found.answer, found.start) == ("BLUE", context.index("BLUE"))
    assert found.windows > 5
    assert found.tokens_used == found.tokens_total


def test_predict_files(
    trained: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"question": "a sky is?", "context": "the sky is red."}
    squad = {"data": [{"paragraphs": [{"context": row["context"], "qas": [row]}]}]}
    for name, content in (
        ("a.jsonl", json.dumps(row)),
        ("a.csv", "context,question\nthe sky is red.,a sky is?"),
        ("a.json", json.dumps(squad)),
    ):
        (tmp_path / name).write_text(content)
        assert run(["predict", str(trained), "--input", str(tmp_path / name), "--plain"]) == 0
        assert capsys.readouterr().out == "red\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(row).encode())))
    assert run(["predict", str(trained), "--plain"]) == 0
    assert capsys.readouterr().out == "red\n"


def test_the_run_says_what_it_does(trained: Path) -> None:
    card = (trained / "MODEL_CARD.md").read_text()
    assert "or says that the text has no answer" in card
    assert "--context" in card
    assert json.loads((trained / "config.json").read_text())["architectures"] == [
        "BertForQuestionAnswering"
    ]


def test_training_goes_on_from_a_run(trained: Path, questions: Path, tmp_path: Path) -> None:
    model = TASK.start(tiny.recipe("answer", [questions], model=str(trained))).model
    before = BertForQuestionAnswering.from_pretrained(trained)
    assert_same_bits(model.qa_outputs.weight, before.qa_outputs.weight, "stored")


@pytest.fixture
def fails(capsys: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)

    def check(*words: object) -> str:
        assert run([str(word) for word in words]) == 2
        captured = capsys.readouterr()
        (line,) = (line for line in captured.err.splitlines() if line.startswith("heedful: "))
        assert captured.out == ""
        return line

    return check


WRONG = {"question": "?", "context": "the sky", "answers": [{"text": "sky", "start": 3}]}


def test_misplaced_answers_are_told_and_not_learnt(
    tiny_model: Path, tmp_path: Path, capsys: Out, fails: Callable[..., str]
) -> None:
    right = [row | {"answers": row["answers"] * 3} for row in colour_questions()]
    wrong = {"question": "?", "context": "the sky", "answers": [{"text": "grass", "start": -1}]}
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*right, wrong]))
    words = ["train", "answer", "--model", tiny_model, "--train", "a.jsonl", "--out", "run"]
    options = ["--steps", "2", "--precision", "fp32", "--dev", "a.jsonl"]
    assert run([str(word) for word in [*words, *options]]) == 0
    printed = capsys.readouterr().err
    count = sum(len(row["answers"]) for row in right) + 1
    share = f"1 of {count} answers are not at their stated offsets, and are"
    place = (
        f"; questions without any other answer: 1; the first: a.jsonl, line {len(right) + 1}: "
        "the answer 'grass' is not at -1 of the context; it does not occur there"
    )
    assert f"{share} not used for training{place}" in printed
    assert f"--dev: {share} scored as texts{place}" in printed
    assert f"\n{len(right)} examples, " in printed
    assert run(["evaluate", "run", "--data", "a.jsonl"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["misplaced_answers"] == 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([WRONG], [], "a.jsonl, line 1: the answer 'sky' is not at 3 of the context; it occurs"),
        ([WRONG | {"answers": []}], [], "no question of the training data has an answer"),
        ([WRONG | {"context": ""}], [], "a.jsonl, line 1: empty context"),
        ([WRONG | {"question": ""}], [], "a.jsonl, line 1: empty question"),
        ([], [], "a.jsonl: holds no questions"),
        (None, ["--stride", "-1"], "--stride -1: must be a whole number of 0 or above"),
        (None, ["--max-answer-tokens", "0"], "--max-answer-tokens 0: must be a whole number of at"),
        (None, ["--no-answer-threshold", "nan"], "--no-answer-threshold nan: must be a number"),
        (None, ["--long-text", "head-tail"], "--long-text head-tail leaves a gap"),
        (None, ["--metric", "accuracy"], "unknown --metric 'accuracy'"),
    ],
)
def test_wrong_training(
    fails: Callable[..., str],
    tiny_model: Path,
    rows: list[dict[str, Any]] | None,
    options: list[str],
    message: str,
) -> None:
    rows = colour_questions() if rows is None else rows
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train", "answer", "--model", tiny_model, "--train", "a.jsonl", "--out", "run"]
    assert message in fails(*words, *options)
    assert not Path("run").exists()


def test_a_context_in_another_encoding_is_explained(
    trained: Path, tmp_path: Path, capsys: Out
) -> None:
    file = tmp_path / "context.txt"
    file.write_bytes("the apple was blue。".encode("gb18030"))
    words = ["explain", str(trained), "an apple is?", "--context-file", str(file)]
    assert run([*words, "--method", "none", "--encoding", "gb18030"]) == 0
    assert json.loads(capsys.readouterr().out)["sides"][0]["texts"][1] == "the apple was blue。"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a sky?"], "question 1: no context to answer it from: give --context"),
        (["a sky?", "--context", " "], "question 1: empty context"),
        (["", "--context", "the sky"], "question 1: empty question"),
        (["--context", "the sky"], "--context goes with texts given as arguments"),
        (["a?", "--context", "a", "--context-file", "b"], "--context or --context-file, not both"),
        (["a?", "--context-file", "missing.txt"], "missing.txt: no such file"),
        (["a?", "--context", "a", "--long-text", "head-tail"], "--long-text head-tail"),
        (["--input", "a.txt"], "a.txt: questions are read from .json"),
        (["--input", "a.json", "--text", "x"], "leave out column options"),
        (["sky " * 30, "--context", "a " * 30], "question 1: the question has 30 tokens"),
    ],
)
def test_wrong_prediction(
    fails: Callable[..., str], trained: Path, words: list[str], message: str
) -> None:
    assert message in fails("predict", trained, *words)


@pytest.mark.parametrize("family", ["albert", "gpt2"])
def test_no_answer_has_the_spaces_around_it(family: str, tmp_path: Path) -> None:
    """The pieces of some tokenizers include the space."""
    write_folder(family, tmp_path / "model")
    rows = [
        {"question": "who?", "context": "it was ann.", "answers": [{"text": "ann", "start": 7}]}
    ]
    options = {"steps": 1, "precision": "fp32", "model": str(tmp_path / "model")}
    heedful.train("answer", train=rows, out=tmp_path / "run", **options)
    context = "it is  bob, or eve"
    answer = heedful.load(tmp_path / "run")(("who?", context), top=200)
    texts = [each.answer for each in answer.n_best if each.answer is not None]
    assert len(texts) > 20
    assert [text for text in texts if not text or text != text.strip()] == []


@pytest.mark.parametrize("silence", [None, 2.0])
def test_the_best_twenty_share_the_probability_however_many_are_shown(
    silence: float | None,
) -> None:
    spans = [Span(start=0, end=number, score=3 - number / 10) for number in range(1, 31)]
    few, many = (span_probabilities("a" * 30, spans[:count], silence) for count in (20, 30))
    assert sum(candidate.score for candidate in few) == pytest.approx(1)
    for one, other in zip(few[:20], many, strict=False):
        assert one.score == pytest.approx(other.score)
    assert few[-1].score == pytest.approx(many[-1 if silence is not None else 19].score)

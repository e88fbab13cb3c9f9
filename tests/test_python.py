"""Training and evaluation from Python: the commands' settings as keywords."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
import torch
from tests.exact import assert_same_bits

import heedful
from heedful import evaluation
from heedful.errors import as_arguments
from heedful.settings import (
    TASKS,
    ColumnSettings,
    EvaluateOptions,
    ExplainOptions,
    ExplainSettings,
    PredictOptions,
    PredictSettings,
    RunSettings,
    ScoreSettings,
    TeacherSettings,
    TrainOptions,
)
from heedful.tasks.classify import Classify
from heedful.training import fit
from heedful.training.loop import StepResult

ROWS = [
    {"text": f"the {what} is {how}{colour}", "label": colour}
    for what, colour in (("sky", "blue"), ("grass", "green"), ("apple", "red"))
    for how in ("", "very ", "very very ", "so ")
]
GOLDEN = Path(__file__).parent / "golden/0.1.0/classify"
QUICK: dict[str, Any] = {
    "epochs": 20,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "head_learning_rate": 1e-2,
    "dropout": 0.0,
    "precision": "fp32",
}


def names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


KINDS = [ColumnSettings, RunSettings, TeacherSettings]
KINDS += [kind for entry in TASKS.values() for kind in (entry.data, entry.options, entry.training)]


def test_the_keywords_are_the_settings() -> None:
    settings = set().union(*map(names, KINDS))
    assert set(TrainOptions.__annotations__) == settings - {"train", "dev", "out"}
    assert set(PredictOptions.__annotations__) == names(PredictSettings)
    evaluate = names(PredictSettings) | names(ColumnSettings) | names(ScoreSettings)
    assert set(EvaluateOptions.__annotations__) == evaluate
    assert set(ExplainOptions.__annotations__) == names(PredictSettings) | names(ExplainSettings)


@pytest.mark.parametrize(
    ("keywords", "kinds"),
    [(TrainOptions, KINDS), (EvaluateOptions, [PredictSettings, ColumnSettings, ScoreSettings])],
)
def test_a_keyword_has_the_type_of_its_setting(keywords: type, kinds: list[type]) -> None:
    types: dict[str, set[Any]] = {}
    for kind in kinds:
        for name, hint in get_type_hints(kind).items():
            types.setdefault(name, set()).add(hint)
    hints = get_type_hints(keywords)
    # Python takes names of files as text, too, and tasks differ in what some settings may be.
    alike = {
        name
        for name, one in types.items()
        if len(one) == 1 and "Path" not in f"{one} {hints.get(name)}"
    }
    assert len(alike & set(hints)) > 20
    assert {name: {hints[name]} for name in alike & set(hints)} == {
        name: types[name] for name in alike & set(hints)
    }


@pytest.mark.parametrize("kind", ["dicts", "arrow", "path"])
def test_what_is_trained_from_python_answers(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    data: Any = {"dicts": ROWS, "arrow": pa.Table.from_pylist(ROWS), "path": tmp_path / "a.jsonl"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    out, lines = tmp_path / "run", list[str]()
    outcome = heedful.train(
        "classify", train=data[kind], out=out, model=str(tiny_model), say=lines.append, **QUICK
    )
    assert outcome is not None
    assert outcome.step == 40
    assert any("12 examples" in line for line in lines)
    answer = heedful.load(out)("the sky is blue")
    assert answer.label == "blue"
    scores = heedful.evaluate(out, data[kind], say=lines.append)
    assert scores["accuracy"] == 1.0
    held = json.loads((out / "metrics.json").read_text())["data"]
    assert held == scores["data"] == [str(data[kind]) if kind == "path" else "data in memory"]
    card = (out / "MODEL_CARD.md").read_text()
    assert f"- {held[0]}: " in card
    again = heedful.train(
        "classify",
        train=data[kind],
        out=out,
        model=str(tiny_model),
        resume=True,
        say=lines.append,
        **QUICK,
    )
    assert again is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, r"unknown setting 'epoch' \(did you mean 'epochs'"),
        ({"epochs": "3"}, "epochs is '3': expected a whole number"),
        ({"schedule": "linea"}, r"unknown schedule 'linea' \(did you mean 'linear'"),
        ({"batch_size": 0}, "^batch_size 0: must be a whole number of at least 1"),
        ({"scheme": "BIO"}, "unknown setting 'scheme'"),
        ({"metric": "accuracy"}, "^metric is for evaluations on dev: give dev too"),
    ],
)
def test_errors_name_arguments(
    options: dict[str, Any], message: str, tiny_model: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"model": str(tiny_model), **options}
    with pytest.raises(heedful.UserError, match=message):
        heedful.train("classify", train=ROWS, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_an_interrupted_call_goes_on(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def bar(total_steps: int, done: int) -> Iterator[Callable[[StepResult], None]]:
        def interrupt(step: StepResult) -> None:
            if step.step == 3:
                signal.raise_signal(signal.SIGINT)  # as Ctrl-C and a notebook's stop button do

        yield interrupt

    call: dict[str, Any] = {"train": ROWS, "out": tmp_path / "run", "model": str(tiny_model)}
    with monkeypatch.context() as watched:
        watched.setattr(fit, "training_bar", bar)
        with pytest.raises(KeyboardInterrupt, match=r"after step 3 of 40.* resume=True continues"):
            heedful.train("classify", **call, **QUICK)
    lines: list[str] = []
    outcome = heedful.train("classify", **call, **QUICK, resume=True, say=lines.append)
    assert outcome is not None
    assert outcome.step == 40
    assert any(line.startswith("resuming from") and "step-3" in line for line in lines)


def test_errors_and_lines_name_rows_of_data_in_memory(tiny_model: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {"out": tmp_path / "run", "model": str(tiny_model), **QUICK}
    wrong = [*ROWS, {"text": "", "label": "red"}]
    with pytest.raises(heedful.UserError, match=r"^train, row 13, column 'text': empty text$"):
        heedful.train("classify", train=wrong, **call)
    damaged = [*ROWS, {"text": "a caf\ufffd", "label": "red"}]
    lines: list[str] = []
    with pytest.raises(heedful.UserError, match=r"^dev, row 13, column 'text': empty text$"):
        heedful.train("classify", train=damaged, dev=wrong, say=lines.append, **call)
    assert any("train, row 13" in line for line in lines)
    for ask in (heedful.evaluate, heedful.report):
        with pytest.raises(heedful.UserError, match=r"^data, row 13, column 'text': empty text$"):
            ask(GOLDEN, pa.Table.from_pylist(wrong))


def test_data_of_no_known_kind(tmp_path: Path) -> None:
    with pytest.raises(heedful.UserError, match="train is an int: expected a path"):
        heedful.train("classify", train=3, out=tmp_path / "run")
    with pytest.raises(heedful.UserError, match="unknown task 'clasify'"):
        heedful.train("clasify", train=ROWS, out=tmp_path / "run")


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: heedful.load(None), "run is None: expected a path"),
        (lambda: heedful.load(5), "run is 5: expected a path"),
        (lambda: heedful.load(["a", "b"]), r"run is \['a', 'b'\]: expected a path"),
        (lambda: heedful.load(LONG), "run 'x{49}…x{50}': .* too long"),
        (lambda: heedful.load_model(LONG), "model 'x{49}…x{50}': .* too long"),
        (lambda: heedful.load_model(None), "model is None: expected a path"),
        (lambda: heedful.explain(5, "a text"), "run is 5: expected a path"),
        (lambda: heedful.evaluate(5, ROWS), "run is 5: expected a path"),
        (lambda: heedful.evaluate(GOLDEN, ROWS, predictions=5), "predictions is 5: expected a"),
        (lambda: heedful.evaluate(GOLDEN, None), "data is None: expected a path"),
        (lambda: heedful.report(5), "run is 5: expected a path"),
        (lambda: heedful.compare(GOLDEN, None, ROWS), "second is None: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=None), "out is None: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=""), "out is empty: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=LONG), "out 'x{49}…x{50}': .* too lo"),
        (
            lambda: heedful.train("classify", train=ROWS, out="run", teacher=""),
            "teacher is empty: expected a path",
        ),
        (lambda: heedful.train(None, train=ROWS, out="run"), "task is None: expected text"),
        (lambda: heedful.train([], train=ROWS, out="run"), r"task is \[\]: expected text"),
        (lambda: heedful.train("nosuch", train=ROWS, out="run"), "unknown task 'nosuch'; allowed"),
        (
            lambda: heedful.train("classify", train=ROWS, out="run", say=None),
            "say is None: expected a function that takes a line, such as print",
        ),
        (lambda: heedful.evaluate(GOLDEN, ROWS, say=3), "say is 3: expected a function"),
        (lambda: heedful.evaluate(GOLDEN, ROWS, overwrite="no"), "overwrite is 'no': expected Tr"),
        (lambda: heedful.evaluate(GOLDEN, "no.csv", pred=1), "unknown setting 'pred'"),
        (lambda: heedful.evaluate(GOLDEN, ROWS, resume=True), "resume is for the file of predi"),
        (lambda: heedful.evaluate(GOLDEN, ROWS, overwrite=True), "overwrite is for the file of p"),
        (lambda: heedful.explain(GOLDEN, "a", method=3), r"method is 3: expected a list of "),
        (lambda: heedful.compare(GOLDEN, GOLDEN, ROWS, metric=3), "metric is 3: expected text or"),
        (lambda: heedful.report(GOLDEN).save(None), "path is None: expected a path"),
        (
            lambda: heedful.explain(heedful.load(GOLDEN), "a", targt="food"),
            r"unknown setting 'targt' \(did you mean 'target'\?\)",
        ),
    ],
)
def test_arguments_of_another_type_are_named(
    call: Callable[[], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(heedful.UserError, match=f"^{message}"):
        call()
    assert not list(tmp_path.iterdir())


def test_a_report_that_is_there_is_replaced_by_an_argument(tmp_path: Path) -> None:
    report, path = heedful.report(GOLDEN), tmp_path / "report.html"
    report.save(path)
    with pytest.raises(heedful.UserError, match=r"exists; .* or give overwrite=True$"):
        report.save(path)
    report.save(path, overwrite=True)


def test_a_run_does_not_go_on_with_other_data_in_memory(tiny_model: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {"out": tmp_path / "run", "model": tiny_model, "steps": 1}
    call["say"] = lambda line: None
    heedful.train("classify", train=ROWS, dev=ROWS, **call)
    changed = [*ROWS, ROWS[0]]
    other = {"train": (changed, ROWS, "on other training data"), "dev": (ROWS, changed, "with oth")}
    for train, dev, message in other.values():
        with pytest.raises(heedful.UserError, match=f"started {message}.*: the data in memory has"):
            heedful.train("classify", train=train, dev=dev, resume=True, **call)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    message = r"was started with train data in memory, now it is .*/rows\.jsonl$"
    with pytest.raises(heedful.UserError, match=message):
        heedful.train("classify", train=tmp_path / "rows.jsonl", dev=ROWS, resume=True, **call)
    assert heedful.train("classify", train=ROWS, dev=ROWS, resume=True, **call) is None


def test_an_evaluation_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    rows = [{"text": "some bread", "label": "food"}] * 10
    call: dict[str, Any] = {"predictions": tmp_path / "answers.jsonl", "say": lambda line: None}
    run = shutil.copytree(GOLDEN, tmp_path / "run")
    monkeypatch.setattr(evaluation, "RECORDS_PER_STEP", 4)
    decode, answered = Classify.decode, list[Any]()

    def stop(self: Classify, record: Any, *others: Any) -> Any:
        answered.append(record)
        if len(answered) == 9:
            raise KeyboardInterrupt
        return decode(self, record, *others)

    with monkeypatch.context() as stopping:
        stopping.setattr(Classify, "decode", stop)
        with pytest.raises(KeyboardInterrupt, match=r"8 answers are kept: .*resume=True continues"):
            heedful.evaluate(run, rows, **call)
    with pytest.raises(heedful.UserError, match=r"was stopped; give resume=True to continue it"):
        heedful.evaluate(run, rows, **call)
    lines = list[str]()
    scores = heedful.evaluate(run, rows, resume=True, **{**call, "say": lines.append})
    assert scores["items"] == 10
    assert lines[0] == "continuing after 8 answers"
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 10
    assert heedful.evaluate(run, rows, resume=True, **call) == {}


def test_lines_name_arguments(tmp_path: Path) -> None:
    run, lines = shutil.copytree(GOLDEN, tmp_path / "run"), list[str]()
    rows = [{"text": "bread " * 200, "label": "food"}]
    heedful.evaluate(run, rows, say=lines.append, long_text="head")
    assert lines[-1].endswith("tokens were not read; see long_text")


def test_one_function_takes_all_lines(
    tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines, out = list[str](), tmp_path / "run"
    heedful.train("classify", train=ROWS, model=tiny_model, steps=1, out=out, say=lines.append)
    assert f"{tiny_model}: fresh weights, to be trained: classifier" in lines
    assert capfd.readouterr() == ("", "")
    heedful.load_model(tiny_model, head="sequence")
    assert "fresh weights" not in lines[-1]


def test_rows_are_no_running_text(tmp_path: Path) -> None:
    said = "^train: data in memory; running text must be in plain text files$"
    with pytest.raises(heedful.UserError, match=said):
        heedful.train("pretrain", train=[{"text": "a"}], model="minilm", out=tmp_path / "run")


def test_what_another_thread_loads_is_not_said_of_a_training(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines, begun = list[str](), Event()

    def say(line: str) -> None:
        if not begun.is_set():
            begun.set()
            loading.result()
        lines.append(line)

    def load() -> None:
        assert begun.wait(60)
        heedful.load_model(tiny_model, head="token")

    with ThreadPoolExecutor() as thread:
        loading = thread.submit(load)
        heedful.train("classify", train=ROWS, model=tiny_model, steps=1, out=tmp_path, say=say)
    assert len([line for line in lines if "fresh weights" in line]) == 1
    assert len([line for line in caplog.messages if "fresh weights" in line]) == 1


def test_a_path_may_begin_with_the_home(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny_model)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    heedful.train(
        "classify", train="~/rows.jsonl", model="~/model", steps=1, out="~/run", say=lambda _: None
    )
    assert sorted(os.listdir(tmp_path)) == ["model", "rows.jsonl", "run"]
    assert heedful.load("~/run").name == "run"
    options: dict[str, Any] = {"model": "~/model", "steps": 1, "say": lambda _: None}
    heedful.train("classify", train="~/rows.jsonl", teacher="~/run", out="~/two", **options)
    assert "~" not in os.listdir(tmp_path)


def test_the_name_that_was_meant_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'heedful' has no attribute 'BertModle'"):
        heedful.BertModle  # type: ignore[attr-defined]  # noqa: B018
    command = [sys.executable, "-c", "import heedful; heedful.BertModle"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert told.endswith("'BertModle'. Did you mean: 'BertModel'?\n")


def test_options_become_arguments() -> None:
    assert as_arguments("--batch-size 0: give --no-header") == "batch_size 0: give header=False"
    assert as_arguments("give --resume, or --overwrite") == "give resume=True, or overwrite=True"
    command = "a vocabulary that heedful vocabulary --kind bpe --arch gpt2 learns"
    assert as_arguments(f"{command}: --arch x") == f"{command}: arch x"


@pytest.mark.parametrize(
    "line", ["runs/a--b: no such run", "label 'pre--paid'", "label '--paid' is not one"]
)
def test_two_dashes_of_the_user_stay(line: str) -> None:
    assert as_arguments(line) == line


def test_training_leaves_the_random_numbers_of_the_caller(tiny_model: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    heedful.train(
        "classify",
        train=ROWS,
        model=str(tiny_model),
        steps=1,
        out=tmp_path / "run",
        say=lambda _: None,
    )
    assert_same_bits(torch.rand(3), expected, "moved")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_computed_wherever_the_caller_is(
    mode: type[Any], tiny_model: Path, tmp_path: Path
) -> None:
    call: dict[str, Any] = {"model": tiny_model, "steps": 1, "say": lambda _: None}
    with mode():
        outcome = heedful.train("classify", train=ROWS, out=tmp_path / "run", **call)
        model = heedful.load(tmp_path / "run", precision="fp32")
        heedful.explain(model, "the sky")
        heedful.report(tmp_path / "run", ROWS)
        assert torch.is_grad_enabled() is False
    assert outcome is not None
    assert outcome.step == 1
    assert heedful.explain(model, "the sky").attributions


def test_two_threads_train_what_one_does(tiny_model: Path, tmp_path: Path) -> None:
    def weights(name: str) -> bytes:
        out = tmp_path / name
        heedful.train(
            "classify", train=ROWS, model=str(tiny_model), steps=5, out=out, say=lambda _: None
        )
        return (out / "model.safetensors").read_bytes()

    alone = weights("alone")
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(weights, ["one", "two"])) == [alone, alone]

"""Training and evaluation from Python: the commands' settings as keywords."""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
import torch
from tests.exact import assert_same_bits

import heedful
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
from heedful.training import fit
from heedful.training.loop import Done

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
    # Python takes names of files as text, too, and tasks differ in what some settings may be.
    alike = {name for name, hints in types.items() if len(hints) == 1 and "Path" not in str(hints)}
    hints = get_type_hints(keywords)
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
    def bar(total_steps: int, done: int) -> Iterator[Callable[[Done], None]]:
        def interrupt(step: Done) -> None:
            if step.step == 3:
                signal.raise_signal(signal.SIGINT)  # as Ctrl-C and a notebook's stop button do

        yield interrupt

    call: dict[str, Any] = {"train": ROWS, "out": tmp_path / "run", "model": str(tiny_model)}
    with monkeypatch.context() as watched:
        watched.setattr(fit, "training_bar", bar)
        with pytest.raises(KeyboardInterrupt, match=r"after step 3 of 40.* resume goes on"):
            heedful.train("classify", **call, **QUICK)
    lines: list[str] = []
    outcome = heedful.train("classify", **call, **QUICK, resume=True, say=lines.append)
    assert outcome is not None
    assert outcome.step == 40
    assert any(line.startswith("going on from") and "step-3" in line for line in lines)


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
    with pytest.raises(heedful.UserError, match=r"train is a builtins\.int; expected a path"):
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
        (lambda: heedful.evaluate(GOLDEN, None), "data is a builtins.NoneType; expected a path"),
        (lambda: heedful.report(5), "run is 5: expected a path"),
        (lambda: heedful.compare(GOLDEN, None, ROWS), "second is None: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=None), "out is None: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=""), "out is empty: expected a path"),
        (lambda: heedful.train("classify", train=ROWS, out=LONG), "out 'x{49}…x{50}': .* too lo"),
        (lambda: heedful.train(None, train=ROWS, out="run"), "task is None: expected text"),
        (lambda: heedful.train([], train=ROWS, out="run"), r"task is \[\]: expected text"),
        (lambda: heedful.train("nosuch", train=ROWS, out="run"), "unknown task 'nosuch'; allowed"),
    ],
)
def test_arguments_of_another_type_are_named(
    call: Callable[[], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(heedful.UserError, match=f"^{message}"):
        call()
    assert not list(tmp_path.iterdir())


def test_options_become_arguments() -> None:
    assert as_arguments("--batch-size 0: give --no-header") == "batch_size 0: give no_header"


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

"""Runs of earlier versions load, and answer as they did when they were made.

Numbers may differ by 1e-5 in fp32; labels, slices and texts may not. ``make.py`` makes a folder of
such runs.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.golden.asking import ask, command, evaluate, outputs_of

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/answers.json"))
STORED = {path.name: json.loads((path / "answers.json").read_text("utf-8")) for path in FOLDERS}
TOLERANCE = 1e-5


def differences(new: Any, old: Any, where: str = "") -> Iterator[str]:
    """List where two JSON values differ: numbers by more than the tolerance, others at all."""
    if isinstance(old, float) and isinstance(new, int | float):
        if not abs(new - old) <= TOLERANCE * max(1.0, abs(old)):
            yield f"{where}: {new} was {old}"
    elif isinstance(old, dict) and isinstance(new, dict) and new.keys() == old.keys():
        for key, value in old.items():
            yield from differences(new[key], value, f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(new) == len(old):
        for index, (one, other) in enumerate(zip(new, old, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif new != old or type(new) is not type(old):
        yield f"{where}: {new!r} was {old!r}"


def stored(part: str) -> list[Any]:
    """Return a parameter for each stored answer of every version."""
    return [
        pytest.param(version, case, id=f"{version}-{case['name']}")
        for version, answers in STORED.items()
        for case in answers[part]
    ]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Provide copies of the folders, because evaluate writes into a run."""
    folder = tmp_path_factory.mktemp("golden")
    return {path.name: Path(shutil.copytree(path, folder / path.name)) for path in FOLDERS}


@pytest.fixture(autouse=True)
def version_folder(
    request: pytest.FixtureRequest, copies: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "version" in request.fixturenames:
        monkeypatch.chdir(copies[request.getfixturevalue("version")])


def test_there_are_golden_runs() -> None:
    assert "0.1.0" in STORED
    assert all(case for answers in STORED.values() for case in answers.values())


@pytest.mark.parametrize(("version", "case"), stored("commands"))
def test_a_command_answers_as_it_did(version: str, case: dict[str, Any]) -> None:
    rows = [json.loads(line) for line in command(case["command"]).splitlines()]
    assert list(differences(rows, case["rows"])) == []


@pytest.mark.parametrize(("version", "case"), stored("evaluations"))
def test_metrics_are_what_they_were(version: str, case: dict[str, Any]) -> None:
    metrics = evaluate(case["command"])
    known = {name: metrics.get(name) for name in case["metrics"]}  # there may be new ones
    assert list(differences(known, case["metrics"])) == []


@pytest.mark.parametrize(("version", "case"), stored("loaded"))
def test_a_loaded_run_answers_as_it_did(version: str, case: dict[str, Any]) -> None:
    answer = ask(case["run"], case["input"], case["attribute"])
    assert answer == case["answer"]


@pytest.mark.parametrize(("version", "case"), stored("tensors"))
def test_a_model_computes_what_it_did(version: str, case: dict[str, Any]) -> None:
    outputs = outputs_of(case["class"], case["folder"])
    assert list(differences(outputs, case["outputs"])) == []


def test_differences_are_noticed() -> None:
    old = {"label": "a", "score": 0.5, "spans": [[0, 3]]}
    assert list(differences({**old, "score": 0.5 + 1e-6}, old)) == []
    for new in (
        {**old, "score": 0.5 + 1e-4},
        {**old, "label": "b"},
        {**old, "spans": [[0, 4]]},
        {**old, "spans": []},
        {**old, "more": 1},
        {**old, "score": float("nan")},
    ):
        assert len(list(differences(new, old))) == 1

"""A new process answers, trains and evaluates without loading modules that it does not use."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden/0.1.0"
FRAMEWORKS_COMPILER = {"torch._dynamo", "torch._inductor", "sympy"}
OTHER_VERBS = {
    "cyclopts.help.help",
    "docstring_parser",
    "numpy.random",
    "pyarrow",
    "rich",
    "sacrebleu",
    "scipy",
    "sklearn",
    "torchmetrics",
}
"""What help, training, scores and tables are made with."""
OTHER_LIBRARIES = {"matplotlib", "torchmetrics", "transformers"}
"""What some other library would import, or is asked for by other tasks alone."""

PROGRAM = """
import gc
import sys
from heedful.cli import run
run(sys.argv[1:])
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000  # what was imported: the collector need not look at it
print(*sys.modules)
"""


def _run(*words: str) -> tuple[str, set[str]]:
    """Return what a command prints, and the modules of its process."""
    arguments = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    said, _, modules = done.stdout.rstrip().rpartition("\n")
    return said, {*modules.split()}


@pytest.mark.parametrize("run", ["classify", "tag", "embed", "translate", "gru", "replies"])
def test_the_first_answer_waits_for_no_module_that_it_does_not_need(run: str) -> None:
    answer, modules = _run("predict", str(GOLDEN / run), "ein Hund", "--precision", "fp32")
    assert answer.startswith("{")
    assert modules & (FRAMEWORKS_COMPILER | OTHER_VERBS | OTHER_LIBRARIES) == set()


def test_training_and_its_scores_wait_for_no_module_that_they_do_not_need(tmp_path: Path) -> None:
    data, model = GOLDEN / "data/classify.csv", GOLDEN / "body"
    learn = ["train", "classify", "--train", data, "--dev", data, "--model", model, "--steps", "1"]
    _, modules = _run(*map(str, learn), "--out", str(tmp_path / "run"))
    assert '"accuracy"' in (tmp_path / "run/metrics.jsonl").read_text()
    assert modules & (FRAMEWORKS_COMPILER | OTHER_LIBRARIES) == set()


def test_an_explanation_waits_for_no_module_that_it_does_not_need() -> None:
    said, modules = _run("explain", str(GOLDEN / "classify"), "a red cat", "--json")
    assert said.startswith("{")
    assert modules & (FRAMEWORKS_COMPILER | OTHER_LIBRARIES | {"scipy", "sklearn"}) == set()


def test_an_evaluation_waits_for_no_module_that_it_does_not_need(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "classify", tmp_path / "run")  # for its scores are written
    said, modules = _run(
        "evaluate", str(tmp_path / "run"), "--data", str(GOLDEN / "data/classify.csv")
    )
    assert "accuracy" in said
    assert modules & (FRAMEWORKS_COMPILER | OTHER_LIBRARIES) == set()

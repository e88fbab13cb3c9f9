"""The first answer of a new process comes without what it has no use for."""

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

PROGRAM = """
import sys
from heedful.cli import run
run(["predict", sys.argv[1], sys.argv[2], "--precision", "fp32"])
print(*sys.modules)
"""


@pytest.mark.parametrize("run", ["classify", "tag", "embed", "translate", "gru", "replies"])
def test_the_first_answer_waits_for_no_module_that_it_does_not_need(run: str) -> None:
    arguments = [sys.executable, "-c", PROGRAM, str(GOLDEN / run), "ein Hund"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    answer, modules = done.stdout.splitlines()
    assert answer.startswith("{")
    assert set(modules.split()) & (FRAMEWORKS_COMPILER | OTHER_VERBS) == set()

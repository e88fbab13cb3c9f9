"""The first answer of a new process comes without what it has no use for."""

import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden/0.1.0"
PROGRAM = """
import sys
from heedful import load
load(sys.argv[1], precision="fp32")(sys.argv[2])
print(*(name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules))
"""


@pytest.mark.parametrize("run", ["classify", "tag", "embed", "translate", "gru", "replies"])
def test_the_frameworks_compiler_stays_out_of_the_first_answer(run: str) -> None:
    arguments = [sys.executable, "-c", PROGRAM, str(GOLDEN / run), "ein Hund"]
    loaded = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []

"""heedful starts quickly, because heavy modules are imported only when needed."""

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "pyarrow", "safetensors", "torchmetrics", "matplotlib", "transformers"}


def _imported_by(program: str) -> set[str]:
    report = "import atexit, json, sys; atexit.register(lambda: print(json.dumps([*sys.modules])))"
    done = subprocess.run(
        [sys.executable, "-c", f"{report}\n{program}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_heedful_is_light() -> None:
    assert not _imported_by("import heedful") & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_help_is_light(arguments: list[str]) -> None:
    program = f"import sys; sys.argv = ['heedful', *{arguments!r}]; from heedful.cli import main"
    assert not _imported_by(f"{program}; main()") & HEAVY


def test_only_help_reads_the_sentences_under_the_settings() -> None:
    program = "from heedful.cli import run; run(['predict', 'no-such-run', 'a text'])"
    assert "docstring_parser" not in _imported_by(program)


def test_the_check_notices_a_heavy_import() -> None:
    assert "numpy" in _imported_by("import numpy")

"""The commands and programs of the page on exports run."""

import contextlib
import io
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from heedful import cli

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
RUNS = {"tickets": "classify", "vectors": "embed", "de-en": "translate"}
NEEDS = {
    "hf": "transformers",
    "onnx": "onnxscript",
    "openvino": "openvino",
    "marian": "sentencepiece",
    "sentence-transformers": "torch",
}


def _blocks() -> list[str]:
    """Return the indented blocks of the page."""
    blocks, block = [], []
    for line in [*PAGE.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block:
            blocks.append("\n".join(block))
            block = []
    return blocks


def test_what_the_page_shows(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, run in RUNS.items():
        shutil.copytree(golden / run, tmp_path / "runs" / name)
    shutil.copy(golden / "data" / "classify.csv", tmp_path / "tickets.csv")
    monkeypatch.chdir(tmp_path)
    formats = set()
    for block in _blocks():
        for line in block.splitlines():
            if line.startswith("heedful export "):
                words = shlex.split(line)[1:]
                format = words[words.index("--format") + 1]
                formats.add(format)
                if find_spec(NEEDS[format]) is None:
                    continue
                shutil.rmtree(words[words.index("--to") + 1], ignore_errors=True)
                with contextlib.redirect_stdout(io.StringIO()):
                    assert cli.run(words) == 0, line
        if block.startswith(("from transformers", "import onnxruntime")):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, "export.md", "exec"), {})
            assert printed.getvalue().strip(), block
    assert formats == NEEDS.keys()

"""The notebook of examples/ runs unchanged, cell by cell."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tickets.ipynb"


def code_cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in code_cells():
        source = "".join(cell["source"])
        quick = source.replace('"minilm"', repr(os.fspath(tiny_model))).replace(
            "epochs=6", "epochs=1"
        )
        exec(compile(quick, f"{NOTEBOOK.name}[{cell['id']}]", "exec"), names)
    assert Path("runs/tickets/manifest.json").is_file()
    assert 0 <= names["scores"]["accuracy"] <= 1
    assert len(names["answers"]) == 3
    assert capsys.readouterr().out.count("tokens read") == 3


def test_the_notebook_is_stored_without_outputs() -> None:
    for cell in code_cells():
        assert cell["outputs"] == []
        assert cell["execution_count"] is None

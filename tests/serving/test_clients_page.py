"""The examples of docs/clients.md run, against a server."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.serving.conftest import Live

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
RUNS = {"tickets": "classify", "minilm": "embed", "people": "tag", "de-en": "translate"}
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def against(block: str, live: Live) -> str:
    """Return an example with the address and the runs of a server."""
    for name, run in RUNS.items():
        block = block.replace(f'"{name}"', f'"{run}"').replace(f"/models/{name}", f"/models/{run}")
    return block.replace("http://localhost:8000", live.url).replace(
        '"localhost:8000"', repr(live.url.removeprefix("http://"))
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[1])
def test_an_example_runs(block: str, live: Live, online: None) -> None:
    for package in re.findall(r"^(?:from|import) (\w+)", block, re.MULTILINE):
        pytest.importorskip(package)
    names: dict[str, Any] = {}
    exec(compile(against(block, live), PAGE.name, "exec"), names)


def test_every_client_has_an_example() -> None:
    packages = set(re.findall(r"^(?:from|import) (\w+)", "".join(BLOCKS), re.MULTILINE))
    assert packages == {
        *("httpx", "openai", "langchain_openai", "huggingface_hub", "langchain_huggingface"),
        *("numpy", "tritonclient"),
    }

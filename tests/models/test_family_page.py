"""docs/family.md says what each family has and what works for it, and that is so."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.tiny_folders import ENCODERS, TOKENIZERS, write_folder

from heedful.compiled.int8 import products
from heedful.compiled.int8_encoder import random_rows
from heedful.compiled.kernels import of_encoders
from heedful.compiled.model import compile_model
from heedful.errors import UserError
from heedful.models import FAMILIES
from heedful.models.loading import load_model
from heedful.models.model import Model

PAGE = (Path(__file__).parents[2] / "docs" / "family.md").read_text(encoding="utf-8")
CPU = torch.device("cpu")
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def _table(first: str, second: str) -> dict[str, dict[str, str]]:
    """Read the table with these first two columns: for each family its cells by column."""
    heading = re.escape(f"| {first} | {second} |")
    match = re.search(rf"^{heading}.*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert match, f"docs/family.md has no table that begins with {first} and {second}"
    columns = _cells(match[0].partition("\n")[0])
    rows = [_cells(line) for line in match[1].splitlines()]
    return {
        re.sub(r"\[(.*)\]\(.*\)", r"\1", row[0]): dict(zip(columns, row, strict=True))
        for row in rows
    }


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


ABOUT = _table("family", "paper")
WORKS = _table("family", "compiled")


@pytest.fixture(scope="module", params=ENCODERS)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a tiny model."""
    folder = tmp_path_factory.mktemp(family) / "model"
    write_folder(family, folder)
    return folder


def test_every_family_has_its_rows(family: str) -> None:
    assert family in ABOUT, f"docs/family.md: the first table has no row {family!r}"
    assert family in WORKS, f"docs/family.md: the table of what works has no row {family!r}"


def test_the_page_says_which_heads_and_tokenizer(family: str) -> None:
    heads = [head for head in FAMILIES[family].models if head != "body"]
    assert ABOUT[family]["heads"] == ", ".join(heads)
    assert ABOUT[family]["tokenizer"].startswith(TOKENIZERS[family])


def _compiled(model: Model) -> str | None:
    if of_encoders(torch.float32, CPU)[0] == "plain":
        pytest.skip("this CPU has no fast kernels")
    _, kernel, reason = compile_model(model)
    return reason if kernel == "plain" else None


def _int8(model: Model) -> str | None:
    if not products(CPU)[0]:
        pytest.skip(products(CPU)[1])
    rows = random_rows([2], [3], vocab_size=20, positions=model.max_positions)
    _, kernel, reason = compile_model(model, lambda: rows)
    return reason if kernel == "plain" else None


def _recompute(model: Model) -> str | None:
    if not model.can_recompute:
        return f"--gradient-checkpointing: {type(model).__name__} has no blocks to compute again"
    model.train().gradient_checkpointing = True
    model(IDS).last_hidden_state.sum().backward()
    return None


def _chunks(model: Model) -> str | None:
    config = type(model).changed(model.config, {"chunk_size_feed_forward": 2})
    chunked = type(model).from_config(config).eval()
    chunked.load_state_dict(model.state_dict())
    torch.testing.assert_close(chunked(IDS).last_hidden_state, model(IDS).last_hidden_state)
    return None


def _pruning(model: Model) -> str | None:
    try:
        model.prune_heads({0: [1]})
    except UserError as error:
        return str(error)
    model(IDS)
    return None


CHECKS: dict[str, Callable[[Model], str | None]] = {
    "compiled": _compiled,
    "int8": _int8,
    "recompute": _recompute,
    "chunks": _chunks,
    "pruning": _pruning,
}
"""By column: what returns why it does not work for a model, or None where it works."""


@pytest.mark.parametrize("column", CHECKS)
def test_what_works(family: str, folder: Path, column: str) -> None:
    model = load_model(folder, head="body")
    reason = CHECKS[column](model)
    assert WORKS[family][column] == ("no" if reason else "yes"), reason
    assert reason is None or reason in PAGE


def test_the_page_has_the_columns_that_are_tested() -> None:
    assert {column for row in WORKS.values() for column in row} == {"family", *CHECKS}

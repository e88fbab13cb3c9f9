"""The reference library, imported once."""

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """Give ``transformers``, whose models are what ours must equal."""
    transformers: ModuleType = pytest.importorskip(
        "transformers", reason="parity needs the reference: pip install 'heedful[dev]'"
    )
    transformers.logging.set_verbosity_error()
    return transformers


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute on one thread: to wake another takes longer than all of a tiny model."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

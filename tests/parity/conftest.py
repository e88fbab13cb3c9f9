"""The reference library, imported once."""

from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """Provide ``transformers``, whose models ours must equal."""
    transformers: ModuleType = pytest.importorskip(
        "transformers", reason="parity needs the reference: pip install 'heedful[dev]'"
    )
    transformers.logging.set_verbosity_error()
    return transformers

"""The golden runs, which the exports are tested with."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Provide the folder of a finished run of each task; they are read, never written to."""
    return GOLDEN

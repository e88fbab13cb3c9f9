"""``heedful bench``: benchmark heedful against its peers; needs a clone of the repository."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from heedful.errors import UserError

CLONE = Path(__file__).parents[3]
"""Root of the repository, if heedful runs from a clone."""


def load_benchmark() -> Callable[..., list[str]]:
    """Return ``benchmarks.measure.measure`` of the clone that heedful runs from.

    Raises:
        UserError: heedful does not run from a clone.
    """
    if not (CLONE / "benchmarks" / "measure.py").is_file():
        raise UserError(
            "heedful bench needs the folder benchmarks/ and the Makefile of heedful's repository, "
            "which an installed package lacks: clone it, and run 'make bench' there"
        )
    if data := os.environ.get("HEEDFUL_DATA"):
        os.environ["HEEDFUL_DATA"] = str(Path(data).absolute())
    sys.path.insert(0, str(CLONE))
    measure: Callable[..., list[str]] = import_module("benchmarks.measure").measure
    return measure

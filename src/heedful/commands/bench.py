"""``heedful bench``: heedful beside its peers, which only a clone of the repository can measure."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from heedful.errors import UserError

CLONE = Path(__file__).parents[3]
"""Where the repository is, if this is one."""


def measuring() -> Callable[..., list[str]]:
    """Return what measures: ``benchmarks.measure.measure`` of the clone that heedful runs from.

    Raises:
        UserError: heedful does not run from one.
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

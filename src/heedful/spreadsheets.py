"""Tables for spreadsheets, which run a cell that looks like a formula (CWE-1236)."""

import re
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the full-width forms of the first."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file: a text that would be run as a formula is quoted.

    Numbers are numbers, whatever they begin with, such as the label -1.
    """
    formula = isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA)
    if formula and not _NUMBER.fullmatch(value):
        return "'" + value
    return value

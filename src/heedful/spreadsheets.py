"""Prevent formula injection: spreadsheets run cells that look like formulas (CWE-1236)."""

import re
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of formulas; the last four are the full-width forms of the first four."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def cell(value: Any) -> Any:
    """Return a value as a CSV cell. A text that looks like a formula gets a quote in front.

    Numbers, such as the label -1, stay unchanged.
    """
    formula = isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA)
    if formula and not _NUMBER.fullmatch(value):
        return "'" + value
    return value

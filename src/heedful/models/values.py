"""Values of a configuration, checked one at a time."""

import math

from heedful.errors import UserError


def check_number(
    name: str, value: object, kind: type, *, low: float = 0, below: float = math.inf
) -> None:
    """Check that a value is a number of a kind and in a range.

    Args:
        name: what an error calls it.
        value: what is checked.
        kind: ``int``, or ``float``, which an integer is, too.
        low: the least it may be.
        below: what it must stay below.

    Raises:
        UserError: it is not.
    """
    numbers = (int,) if kind is int else (int, float)
    if not isinstance(value, numbers) or isinstance(value, bool) or not low <= value < below:
        what = "an integer" if kind is int else "a number"
        limit = "" if below == math.inf else f" and below {below}"
        raise UserError(f"{name} is {value!r}; it must be {what} of at least {low}{limit}")


def check_bool(name: str, value: object) -> None:
    """Check that a value is true or false.

    Raises:
        UserError: it is neither.
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} is {value!r}; it must be true or false")

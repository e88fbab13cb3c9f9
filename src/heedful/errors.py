"""What a user can mend: one line that says what was given, where, and what is allowed."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong input. The command line prints its message as one line and exits with code 2."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the allowed name nearest to ``given``, or ''."""
    near = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not in a known set, naming the nearest right one.

    Args:
        what: the kind of name, such as ``"configuration key"``.
        given: the name that was given.
        allowed: every name that would have been right.
    """
    names = sorted(allowed)
    return UserError(
        f"unknown {what} {given!r}{did_you_mean(given, names)}; allowed: {', '.join(names)}"
    )

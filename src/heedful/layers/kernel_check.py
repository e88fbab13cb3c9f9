"""Test whether a kernel of torch exists and computes the expected result."""

from collections.abc import Callable


def kernel_error(computes_right: Callable[[], bool]) -> str | None:
    """Return why a kernel cannot be used, or None if it can."""
    try:
        right = computes_right()
    except (AttributeError, RuntimeError, TypeError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return None if right else "the results of the kernel are wrong"

"""What a server refuses, or fails at: one error, which each protocol writes in its own shape."""

from typing import Literal

from heedful.errors import UserError, as_arguments

Kind = Literal[
    "validation",
    "too large",
    "too many",
    "overloaded",
    "not ready",
    "not found",
    "unable",
    "empty",
    "unauthorised",
    "forbidden",
    "internal",
]
"""What went wrong, for protocols that name it."""

STATUS: dict[Kind, int] = {
    "validation": 422,
    "too large": 413,
    "too many": 413,
    "overloaded": 429,
    "not ready": 503,
    "not found": 404,
    "unable": 422,
    "empty": 422,
    "unauthorised": 401,
    "forbidden": 403,
    "internal": 500,
}
"""The HTTP status of each kind, where a problem names no other."""


class Problem(Exception):  # noqa: N818 - what a client is told need not be an error of ours
    """What a client is told instead of an answer.

    Args:
        kind: what went wrong.
        message: one sentence for the client, which never holds a traceback.
        status: the HTTP status; by default that of the kind.
        retry_after: seconds after which it may be worth to try again.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or STATUS[kind]
        self.retry_after = retry_after


def refusal(error: UserError) -> Problem:
    """Return the problem for what a client got wrong, naming options as JSON does."""
    return Problem("validation", as_arguments(str(error)))

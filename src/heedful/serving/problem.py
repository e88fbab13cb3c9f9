"""The error type of the server, which each protocol renders in its own format."""

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
"""Kind of problem, for protocols that report it."""

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
"""Default HTTP status of each kind."""


class Problem(Exception):  # noqa: N818 - the fault may be the client's
    """An error response for a client.

    Args:
        kind: the kind of problem.
        message: one sentence for the client, never with a traceback.
        status: the HTTP status; by default the kind's status in `STATUS`.
        retry_after: seconds after which the client may try again.
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
    """Return the problem for a client's error, with option names as in JSON."""
    return Problem("validation", as_arguments(str(error)))

"""One request and its answer, as logs and metrics see them."""

import re
import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field

_WELL_FORMED = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(kw_only=True, slots=True)
class Exchange:
    """What happens to a request."""

    id: str
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    """Of the answer, once it has begun."""
    bytes_in: int = 0
    bytes_out: int = 0
    run: str | None = None
    """The run that answers."""
    items: int = 0
    """Texts that it was asked for."""
    tokens: int = 0
    """Their tokens."""
    queue_seconds: float = 0.0
    """How long they waited for their first batch."""

    @property
    def seconds(self) -> float:
        """Seconds since the request began."""
        return time.perf_counter() - self.started


CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange that the running task is part of."""


def request_id(wanted: bytes | None) -> str:
    """Return the id that a client wants for its request if it is well-formed, or a new one."""
    text = (wanted or b"").decode("latin-1")
    return text if _WELL_FORMED.fullmatch(text) else uuid.uuid4().hex

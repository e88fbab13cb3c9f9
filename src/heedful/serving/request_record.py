"""One request and its response, as recorded for logs and metrics."""

import re
import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field

_WELL_FORMED = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(kw_only=True, slots=True)
class RequestRecord:
    """Record of a request and its response."""

    id: str
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    """HTTP status of the response, once it has started."""
    bytes_in: int = 0
    bytes_out: int = 0
    run: str | None = None
    """Name of the run that answers."""
    items: int = 0
    """Number of texts in the request."""
    tokens: int = 0
    """Number of tokens of the texts."""
    queue_seconds: float = 0.0
    """Seconds that the texts waited for their first batch."""

    @property
    def seconds(self) -> float:
        """Seconds since the start of the request."""
        return time.perf_counter() - self.started


CURRENT_REQUEST: ContextVar[RequestRecord | None] = ContextVar("exchange", default=None)
"""The exchange of the current asyncio task."""


def request_id(wanted: bytes | None) -> str:
    """Return the request id that the client sent if it is well-formed, else a new one."""
    text = (wanted or b"").decode("latin-1")
    return text if _WELL_FORMED.fullmatch(text) else uuid.uuid4().hex

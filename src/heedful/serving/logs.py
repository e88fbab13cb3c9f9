"""The log: one line of JSON for each event, written by a separate thread."""

import json
import logging
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any

LOG = logging.getLogger("heedful.serving")

_MAX_QUEUED_LINES = 10_000
"""Maximum number of lines in the queue. If nothing reads the log, further lines are dropped, so
that the server does not block."""


class JsonLines(logging.Formatter):
    """Formats an event as one line of ASCII JSON, with all text from clients escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _NonBlockingHandler(QueueHandler):
    """Passes log records to the writer thread, and drops them instead of blocking."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # no pickling: the queue stays in this process

    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(queue.Full):
            self.queue.put_nowait(record)


@contextmanager
def logging_json() -> Iterator[None]:
    """Log to standard output, including uvicorn's warnings."""
    writer = logging.StreamHandler(sys.stdout)
    writer.setFormatter(JsonLines())
    waiting: queue.Queue[Any] = queue.Queue(_MAX_QUEUED_LINES)
    handler = _NonBlockingHandler(waiting)
    loggers = {LOG: logging.INFO, logging.getLogger("uvicorn"): logging.WARNING}
    for logger, level in loggers.items():
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    listener = QueueListener(waiting, writer)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        for logger in loggers:
            logger.removeHandler(handler)


def log(event: str, fields: dict[str, Any], *, error: BaseException | None = None) -> None:
    """Log an event with its fields, and the traceback of an error."""
    level = logging.INFO if error is None else logging.ERROR
    LOG.log(level, event, exc_info=error, extra={"fields": fields})

"""The log: a line of JSON for each event, written by a thread of its own."""

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

_MOST_WAITING = 10_000
"""Lines that wait to be written. If nobody reads the log, later ones are lost, not the server."""


class JsonLines(logging.Formatter):
    """Formats an event as one line of ASCII: JSON escapes whatever a client sent."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Waiting(QueueHandler):
    """Hands lines to the thread that writes, and never waits for it."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the queue stays in this process

    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(queue.Full):
            self.queue.put_nowait(record)


@contextmanager
def logging_json() -> Iterator[None]:
    """Log to standard output, what uvicorn warns of included."""
    writer = logging.StreamHandler(sys.stdout)
    writer.setFormatter(JsonLines())
    waiting: queue.Queue[Any] = queue.Queue(_MOST_WAITING)
    handler = _Waiting(waiting)
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
    """Log an event with its fields; with an error also its traceback."""
    level = logging.INFO if error is None else logging.ERROR
    LOG.log(level, event, exc_info=error, extra={"fields": fields})

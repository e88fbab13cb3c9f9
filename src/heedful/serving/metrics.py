"""Prometheus metrics of a server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

if TYPE_CHECKING:
    from heedful.serving.lane import Lane
    from heedful.serving.request_record import RequestRecord

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


class Metrics:
    """The metrics of one service, in a registry separate from other services in the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.responses = Counter(
            "heedful_responses",
            "Answers by route and status; 499 if the client disconnected first.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        took = "From a request's first byte to the end of its answer."
        self.request_seconds = self._histogram("request_seconds", took, _SECONDS, "route")
        waited = "From when a request's texts are encoded to their first batch."
        self.queue_seconds = self._histogram("queue_seconds", waited, _SECONDS)
        self.batch_seconds = self._histogram("batch_seconds", "Computing one batch.", _SECONDS)
        self.batch_items = self._histogram("batch_items", "Texts of a batch.", _ITEMS)
        without = "Tokens of a batch, without padding."
        self.batch_tokens = self._histogram("batch_tokens", without, _TOKENS)
        self.tokens = self._counter("tokens", "Tokens computed, without padding.")
        self.padding = self._counter("padding_tokens", "Tokens of padding computed.")
        self._queue_items = self._gauge("queue_items", "Waiting texts.")
        self._queue_tokens = self._gauge("queue_tokens", "Waiting tokens.")
        expected = "How long a new request would wait, by the speed measured so far."
        self._wait_seconds = self._gauge("wait_seconds", expected)
        self._speed = self._gauge("tokens_per_second", "Speed of the latest batches.")

    def _histogram(
        self, name: str, about: str, buckets: Sequence[float], label: str = "run"
    ) -> Histogram:
        return Histogram(f"heedful_{name}", about, [label], buckets=buckets, registry=self.registry)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"heedful_{name}", about, ["run"], registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"heedful_{name}", about, ["run"], registry=self.registry)

    def watch(self, lane: "Lane") -> None:
        """Register gauges that read a lane's queue and speed at each scrape."""
        name = lane.name
        self._queue_items.labels(name).set_function(lambda: lane.queue.items)
        self._queue_tokens.labels(name).set_function(lambda: lane.queue.tokens)
        self._wait_seconds.labels(name).set_function(lane.wait_seconds)
        self._speed.labels(name).set_function(lambda: lane.speed.tokens_per_second)

    def count_batch(
        self, run: str, *, items: int, tokens: int, padding: int, seconds: float
    ) -> None:
        """Record a computed batch."""
        self.batch_items.labels(run).observe(items)
        self.batch_tokens.labels(run).observe(tokens)
        self.batch_seconds.labels(run).observe(seconds)
        self.tokens.labels(run).inc(tokens)
        self.padding.labels(run).inc(padding)

    def count_exchange(self, exchange: "RequestRecord", route: str, method: str) -> None:
        """Record a finished request."""
        self.responses.labels(route, method, str(exchange.status)).inc()
        self.request_seconds.labels(route).observe(exchange.seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)

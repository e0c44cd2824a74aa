"""The counters of the server for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one app. Labels are the paths of the app and a few statuses, so their number is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("gssc_requests", "Requests answered", ("path", "status"), registry=self.registry)
        self.errors = Counter(
            "gssc_errors", "Requests answered with a status of 400 or more", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "gssc_request_seconds", "Time to answer", ("path",), buckets=SECONDS, registry=self.registry
        )
        self.rows = Counter("gssc_rows", "Rows classified", registry=self.registry)
        self.batch_rows = Histogram("gssc_batch_rows", "Rows of a batch", buckets=ROWS, registry=self.registry)
        self.batch_requests = Histogram(
            "gssc_batch_requests", "Requests of a batch", buckets=ROWS, registry=self.registry
        )
        self._in_flight = Gauge("gssc_requests_in_flight", "Requests under way", registry=self.registry)
        # Looking a label up costs more than counting does.
        self._counters: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def watch_in_flight(self, number: Callable[[], float]) -> None:
        """Use ``number`` to count the requests in flight whenever metrics are read."""
        self._in_flight.set_function(number)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        counter = self._counters.get((path, status))
        if counter is None:
            counter = self._counters[path, status] = self.requests.labels(path, str(status))
            self._timers[path] = self.seconds.labels(path)
        counter.inc()
        self._timers[path].observe(seconds)
        if status >= 400:
            self.errors.labels(path, str(status)).inc()

    def computed(self, requests: int, rows: int) -> None:
        """Count one batch that went through the model."""
        self.rows.inc(rows)
        self.batch_rows.observe(rows)
        self.batch_requests.observe(requests)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

"""Small requests that arrive together go through the model together; large ones go alone, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gssc.deploy.model import DeployedModel
from gssc.errors import GsscError
from gssc.serve.json_rows import Features, SparseRequest, join
from gssc.serve.limits import Limits, Refused
from gssc.serve.metrics import Metrics

# Multiplications that take about a millisecond: for fewer, another thread gains nothing.
INLINE_WORK = 8_000_000
BATCH_ROWS = 1024
# Probabilities that are written as text in about the same time.
INLINE_RESULTS = 1 << 13

T = TypeVar("T")


class Batcher:
    """Gathers the rows of requests into batches for the model.

    A batch is predicted as soon as no other request is arriving, so that a single one does not wait; otherwise after
    ``batch_wait_ms``, or when it is full.

    Args:
        model: the model that predicts.
        limits: how long rows wait for others.
        metrics: counts every batch.
    """

    def __init__(self, model: DeployedModel, limits: Limits, metrics: Metrics):
        self.model, self.metrics = model, metrics
        self.wait = limits.batch_wait_ms / 1000
        self._coming = 0
        self._waiting: list[tuple[Features, asyncio.Future[np.ndarray]]] = []
        self._work = self._rows = 0
        self._flush: asyncio.Handle | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="gssc-predict")
        widths = model.widths
        self._first, self._rest = widths[1], sum(a * b for a, b in pairwise(widths[1:]))

    @contextmanager
    def on_its_way(self) -> Iterator[None]:
        """Count a request whose rows are still being read: a batch waits for it briefly."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def predict(self, rows: Features, then: Callable[[np.ndarray], T], alone: bool = False) -> T:
        """Predict rows and return what ``then`` makes of the probabilities, [rows, classes].

        Args:
            rows: rows to classify.
            then: called in the same thread, so that at most one large result is in memory.
            alone: predict in a thread, in a batch of its own, however few rows there are.
        """
        work = self._work_of(rows)
        large = work > INLINE_WORK or len(rows) > BATCH_ROWS or len(rows) * self.model.widths[-1] > INLINE_RESULTS
        if large or alone:
            return await self.in_thread(lambda: then(self._compute([rows])[0]))
        if self._work + work > INLINE_WORK or self._rows + len(rows) > BATCH_ROWS:
            self._run()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[np.ndarray] = loop.create_future()
        self._waiting.append((rows, future))
        self._work += work
        self._rows += len(rows)
        if self._coming == 0:
            self._cancel_flush()
            # Not at once, so that requests that arrived with this one join the batch.
            self._flush = loop.call_soon(self._run)
        elif self._flush is None:
            self._flush = loop.call_later(self.wait, self._run)
        return then(await future)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return ``work(*arguments)``, done in a thread so that other requests do not wait; one call at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def warm_up(self) -> None:
        """Load libraries and fill caches before the first request."""
        width = self.model.widths[0]
        empty = SparseRequest(np.zeros(0, np.float32), np.zeros(0, np.int32), [0])
        for rows in (np.zeros((1, width), np.float32), empty):
            self.model.predict_proba(join([rows], width))

    def close(self) -> None:
        """Stop the thread once its work is done."""
        self._threads.shutdown()

    def _work_of(self, rows: Features) -> int:
        entries = len(rows.data) if isinstance(rows, SparseRequest) else rows.size
        return entries * self._first + len(rows) * self._rest

    def _cancel_flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None

    def _run(self) -> None:
        """Predict the rows that are waiting, dense and sparse ones separately."""
        self._cancel_flush()
        waiting, self._waiting = self._waiting, []
        self._work = self._rows = 0
        waiting = [(rows, future) for rows, future in waiting if not future.done()]
        for sparse in (False, True):
            items = [item for item in waiting if isinstance(item[0], SparseRequest) == sparse]
            if items:
                self._answer(items)

    def _answer(self, items: Sequence[tuple[Features, asyncio.Future[np.ndarray]]]) -> None:
        try:
            results = self._compute([rows for rows, _ in items])
        except Exception as error:
            if len(items) == 1:
                items[0][1].set_exception(error)
                return
            # Only the sender of rows that overflow gets an error.
            for item in items:
                self._answer([item])
            return
        for (_, future), result in zip(items, results, strict=True):
            future.set_result(result)

    def _compute(self, parts: list[Any]) -> list[np.ndarray]:
        try:
            with np.errstate(over="ignore"):  # a softmax of very large scores may overflow and is still correct
                probabilities = self.model.predict_proba(join(parts, self.model.widths[0]))
        except GsscError as error:
            raise Refused(422, str(error)) from None
        self.metrics.computed(len(parts), len(probabilities))
        if len(parts) == 1:
            return [probabilities]
        return np.split(probabilities, np.cumsum([len(part) for part in parts])[:-1])

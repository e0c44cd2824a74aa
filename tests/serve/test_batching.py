from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from gssc.deploy import DeployedModel
from gssc.serve import batching
from gssc.serve.batching import Batcher
from gssc.serve.json_rows import Features, SparseRequest
from gssc.serve.limits import Limits, Refused
from gssc.serve.metrics import Metrics


def run(model: DeployedModel, work: Callable[[Batcher], Awaitable[Any]], **limits: Any) -> tuple[Any, dict[str, float]]:
    """What ``work`` returns, and how many batches and rows were counted."""

    async def body() -> Any:
        try:
            return await work(batcher)
        finally:
            batcher.close()

    metrics = Metrics()
    batcher = Batcher(model, Limits(**limits), metrics)
    result = asyncio.run(body())
    names = {"batches": "gssc_batch_rows_count", "rows": "gssc_rows_total", "requests": "gssc_batch_requests_sum"}
    return result, {name: metrics.registry.get_sample_value(sample) or 0 for name, sample in names.items()}


def as_it_is(probabilities: np.ndarray) -> np.ndarray:
    return probabilities


def rows_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).random((1 + number % 3, 3), dtype=np.float32)


def test_requests_that_come_together_go_together(model: DeployedModel) -> None:
    async def work(batcher: Batcher) -> list[np.ndarray]:
        return await asyncio.gather(*(batcher.predict(rows_of(number), as_it_is) for number in range(20)))

    results, counted = run(model, work)
    assert counted == {"batches": 1, "requests": 20, "rows": sum(len(rows_of(number)) for number in range(20))}
    for number, result in enumerate(results):
        np.testing.assert_allclose(result, model.predict_proba(rows_of(number)), rtol=1e-5)


def test_dense_and_sparse_rows_do_not_mix_but_agree(model: DeployedModel) -> None:
    sparse = SparseRequest(np.array([2, 1], np.float32), np.array([1, 0], np.int32), [1, 1])
    dense = np.array([[0, 2, 0], [1, 0, 0]], np.float32)

    async def work(batcher: Batcher) -> list[np.ndarray]:
        return await asyncio.gather(*(batcher.predict(rows, as_it_is) for rows in (sparse, dense, sparse)))

    (first, second, third), counted = run(model, work)
    assert counted == {"batches": 2, "requests": 3, "rows": 6}
    np.testing.assert_allclose(first, second, rtol=1e-5)
    np.testing.assert_allclose(third, second, rtol=1e-5)


def test_whoever_is_on_its_way_is_waited_for(model: DeployedModel) -> None:
    async def late(batcher: Batcher) -> np.ndarray:
        with batcher.on_its_way():
            await asyncio.sleep(0.01)
        return await batcher.predict(rows_of(1), as_it_is)

    async def work(batcher: Batcher) -> None:
        await asyncio.gather(late(batcher), batcher.predict(rows_of(0), as_it_is))

    assert run(model, work, batch_wait_ms=1000)[1]["batches"] == 1
    assert run(model, work, batch_wait_ms=0)[1]["batches"] == 2


def test_nobody_waits_for_the_slow_for_long(model: DeployedModel) -> None:
    async def work(batcher: Batcher) -> np.ndarray:
        with batcher.on_its_way():  # and it never arrives
            return await asyncio.wait_for(batcher.predict(rows_of(0), as_it_is), timeout=30)

    np.testing.assert_allclose(run(model, work)[0], model.predict_proba(rows_of(0)), rtol=1e-5)


def test_a_row_that_overflows_fails_alone(model: DeployedModel) -> None:
    bad = np.full((2, 3), 3e38, dtype=np.float32)
    bad[0] = 0

    async def work(batcher: Batcher) -> list[Any]:
        parts = [rows_of(0), bad, rows_of(1)]
        return await asyncio.gather(*(batcher.predict(rows, as_it_is) for rows in parts), return_exceptions=True)

    (first, refused, last), _ = run(model, work)
    assert isinstance(refused, Refused)
    assert refused.status == 422
    assert refused.message.startswith("row 1 has a NaN, infinite or far too large feature")
    np.testing.assert_allclose(first, model.predict_proba(rows_of(0)), rtol=1e-5)
    np.testing.assert_allclose(last, model.predict_proba(rows_of(1)), rtol=1e-5)


def test_scores_that_overflow_only_in_the_softmax() -> None:
    rows = np.array([[0, 0], [3e38, -3e38]], dtype=np.float32)
    model = DeployedModel([(np.eye(2), np.zeros(2))], ["a", "b"])

    async def work(batcher: Batcher) -> np.ndarray:
        return await batcher.predict(rows, as_it_is)

    np.testing.assert_array_equal(run(model, work)[0], [[0.5, 0.5], [1, 0]])
    model.temperature = 0.1  # now the scores themselves become infinite
    with pytest.raises(Refused, match="row 1 has a NaN, infinite or far too large feature"):
        run(model, work)


@pytest.mark.parametrize("setting", ["BATCH_ROWS", "INLINE_WORK"])
def test_a_full_batch_goes_and_large_requests_go_alone(model, monkeypatch, setting: str) -> None:
    per_row = 3 * 4 + 4 * 2
    monkeypatch.setattr(batching, setting, 4 if setting == "BATCH_ROWS" else 4 * per_row)
    sizes = [2, 2, 1, 9, 3]  # the first two fill a batch, 9 goes alone, 1 and 3 fill another
    parts: list[Features] = [np.full((size, 3), size, dtype=np.float32) for size in sizes]

    async def work(batcher: Batcher) -> list[np.ndarray]:
        return await asyncio.gather(*(batcher.predict(rows, as_it_is) for rows in parts))

    results, counted = run(model, work)
    assert counted == {"batches": 3, "requests": 5, "rows": 17}
    assert [len(result) for result in results] == sizes
    for rows, result in zip(parts, results, strict=True):
        np.testing.assert_allclose(result, model.predict_proba(rows), rtol=1e-5)


def test_large_results_are_written_in_the_thread_that_made_them(model, monkeypatch) -> None:
    import threading

    def where(probabilities: np.ndarray) -> bool:
        return threading.current_thread() is threading.main_thread()

    async def work(batcher: Batcher) -> list[bool]:
        rows = np.ones((4, 3), dtype=np.float32)
        small = await batcher.predict(rows[:1], where)
        return [small, await batcher.predict(rows, where), await batcher.predict(rows[:1], where, alone=True)]

    monkeypatch.setattr(batching, "INLINE_RESULTS", 4)
    assert run(model, work)[0] == [True, False, False]


def test_who_left_is_not_predicted_for(model: DeployedModel) -> None:
    async def work(batcher: Batcher) -> None:
        leaver = asyncio.ensure_future(batcher.predict(rows_of(2), as_it_is))
        stayer = asyncio.ensure_future(batcher.predict(rows_of(0), as_it_is))
        with batcher.on_its_way():
            await asyncio.sleep(0)
            leaver.cancel()
        await stayer
        assert leaver.cancelled()

    assert run(model, work)[1] == {"batches": 1, "requests": 1, "rows": len(rows_of(0))}


def test_a_mistake_of_ours_reaches_whoever_asked(model: DeployedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(x: Any) -> np.ndarray:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(model, "predict_proba", fail)

    async def work(batcher: Batcher) -> list[Any]:
        return await asyncio.gather(*(batcher.predict(rows_of(n), as_it_is) for n in range(2)), return_exceptions=True)

    assert [type(error) for error in run(model, work)[0]] == [ZeroDivisionError] * 2

"""The cache of recent results, by object identity."""

from __future__ import annotations

import torch

from gssc.models.recent import Recent


def test_computes_once_for_the_same_object_and_settings() -> None:
    memory: Recent[int] = Recent()
    key, calls = torch.ones(2), []

    def compute() -> int:
        calls.append(None)
        return len(calls)

    assert [memory.get((key,), (1,), compute) for _ in range(3)] == [1, 1, 1]
    assert memory.get((key,), (2,), compute) == 2
    assert memory.get((key.clone(),), (1,), compute) == 3
    assert memory.get((None,), (1,), compute) == 4
    assert memory.get((None,), (1,), compute) == 4


def test_a_write_makes_it_forget() -> None:
    memory: Recent[float] = Recent()
    key = torch.ones(2)
    assert memory.get((key,), (), lambda: float(key.sum())) == 2
    key[0] = 5
    assert memory.get((key,), (), lambda: float(key.sum())) == 6


def test_keeps_no_more_than_its_size_and_nothing_of_the_dead() -> None:
    memory: Recent[int] = Recent(size=2)
    keys = [torch.ones(1) for _ in range(3)]
    for number, key in enumerate(keys):
        memory.get((key,), (), lambda number=number: number)  # type: ignore[misc]
    assert memory.get((keys[2],), (), lambda: -1) == 2
    assert memory.get((keys[0],), (), lambda: -1) == -1
    del keys, key
    memory.get((None,), (), lambda: 0)
    assert len(memory._kept) == 1

"""Checkpoints: what is read back is what was written, bit for bit, or a clear refusal."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

from gssc.errors import GsscError
from gssc.train.checkpoint import (
    load_checkpoint,
    module_state,
    restore_rng,
    rng_state,
    save_checkpoint,
)


def test_round_trip_keeps_every_bit_and_type(tmp_path: Path):
    tensors = {
        "model": {"a.weight": torch.randn(3, 2).T, "b": torch.tensor(5), "empty": torch.empty(0)},
        "odd/name": [torch.tensor([math.nan, math.inf, -0.0])],
        7: {"shared": torch.ones(4).view(2, 2)},
    }
    notes = {"epoch": 3, "best": {"val": 0.1 + 0.2, "nan": math.nan}, "words": [2**64 - 1], "none": None, "no": {}}
    save_checkpoint(tmp_path / "c.safetensors", {"tensors": tensors, "notes": notes})
    read = load_checkpoint(tmp_path / "c.safetensors")
    assert list(read["tensors"]) == ["model", "odd/name", 7]
    for before, after in (
        *((tensors["model"][name], read["tensors"]["model"][name]) for name in tensors["model"]),
        (tensors["odd/name"][0], read["tensors"]["odd/name"][0]),
        (tensors[7]["shared"], read["tensors"][7]["shared"]),
    ):
        assert after.dtype == before.dtype
        assert after.numpy().tobytes() == before.contiguous().numpy().tobytes()
    assert math.isnan(read["notes"]["best"].pop("nan"))
    notes["best"].pop("nan")
    assert read["notes"] == notes


def test_tensors_that_share_memory_are_kept_apart(tmp_path: Path):
    weight = torch.arange(3.0)
    save_checkpoint(tmp_path / "c.safetensors", {"one": weight, "same": weight, "part": weight[:2]})
    read = load_checkpoint(tmp_path / "c.safetensors")
    assert [value.tolist() for value in read.values()] == [[0, 1, 2], [0, 1, 2], [0, 1]]


def test_a_checkpoint_replaces_the_one_before_it_and_leaves_nothing_else(tmp_path: Path):
    path = tmp_path / "c.safetensors"
    for epoch in range(3):
        save_checkpoint(path, {"w": torch.full((2,), float(epoch)), "epoch": epoch})
    state = load_checkpoint(path)
    assert state["epoch"] == 2
    assert state["w"].tolist() == [2, 2]
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path: Path):
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, {"w": torch.ones(2), "epoch": 1})
    with pytest.raises(TypeError):
        save_checkpoint(path, {"w": torch.zeros(2), "epoch": object()})
    assert load_checkpoint(path)["epoch"] == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", None])
def test_what_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path, content: bytes | None):
    path = tmp_path / "c.safetensors"
    if content is None:
        save_checkpoint(path, {"w": torch.ones(100), "epoch": 1})
        content = path.read_bytes()[:-10]
    path.write_bytes(content)
    with pytest.raises(GsscError, match=r"c\.safetensors") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_of_a_checkpoint_is_refused(tmp_path: Path):
    """44 flips in a real checkpoint were resumed silently once; 6 of them gave other final weights."""
    path = tmp_path / "c.safetensors"
    weight, flags = torch.arange(6.0).reshape(2, 3), torch.ones(2) > 0
    save_checkpoint(path, {"model": {"w": weight, "a": flags}, "epoch": 3, "seconds": 1.5})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 6):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                read = load_checkpoint(path)
            except GsscError:
                continue
            # A space of the padding between header and numbers may become something else that is skipped as well.
            assert (read["epoch"], read["seconds"]) == (3, 1.5)
            assert torch.equal(read["model"]["w"], weight)
            assert torch.equal(read["model"]["a"], flags)
            assert whole[place : place + 1] == b" ", place
    path.write_bytes(whole)
    assert load_checkpoint(path)["epoch"] == 3


def test_a_checkpoint_without_a_digest_is_of_another_version(tmp_path: Path):
    path = tmp_path / "c.safetensors"
    path.write_bytes(save({"0": torch.ones(2)}, metadata={"outline": "{}"}))
    with pytest.raises(GsscError, match="written by another version of gssc"):
        load_checkpoint(path)


def test_a_pipe_is_no_checkpoint(tmp_path: Path):
    os.mkfifo(tmp_path / "c.safetensors")
    with pytest.raises(GsscError, match="it is a pipe or a device"):
        load_checkpoint(tmp_path / "c.safetensors")


def test_generator_state_survives_json_and_continues_the_same_stream():
    rng = np.random.Generator(np.random.SFC64(5))
    rng.random(3)
    rng.integers(0, 10, 1, dtype=np.uint32)  # leaves half a word behind, which belongs to the state too
    state = rng_state(rng)
    expected = [rng.bytes(5), rng.random(4).tolist(), rng.permutation(9).tolist()]
    other = np.random.Generator(np.random.SFC64(99))
    restore_rng(other, state)
    assert [other.bytes(5), other.random(4).tolist(), other.permutation(9).tolist()] == expected


def step(layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    (layer(torch.ones(1, 2)) ** 2).sum().backward()
    optimizer.step()


def linear(seed: int = 0) -> tuple[nn.Linear, torch.optim.Adam]:
    torch.manual_seed(seed)
    layer = nn.Linear(2, 3)
    return layer, torch.optim.Adam(layer.parameters(), lr=0.1, fused=True)


def test_optimizer_continues_where_it_stopped(tmp_path: Path):
    layer, optimizer = linear()
    for _ in range(3):
        step(layer, optimizer)
    save_checkpoint(tmp_path / "c", {"layer": layer.state_dict(), "optimizer": optimizer.state_dict()})
    step(layer, optimizer)

    state = load_checkpoint(tmp_path / "c")
    resumed, resumed_optimizer = linear(seed=1)
    resumed.load_state_dict(state["layer"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    step(resumed, resumed_optimizer)
    assert torch.equal(resumed.weight, layer.weight)
    assert torch.equal(resumed.bias, layer.bias)


def test_an_optimizer_that_has_not_stepped_goes_on_too(tmp_path: Path):
    layer, optimizer = linear()
    save_checkpoint(tmp_path / "c", {"optimizer": optimizer.state_dict()})
    optimizer.load_state_dict(load_checkpoint(tmp_path / "c")["optimizer"])
    step(layer, optimizer)


def test_module_states_are_snapshots():
    """A state that was captured before a step must not change with it."""
    layer, optimizer = linear()
    weights = module_state(layer)
    before = {name: value.clone() for name, value in weights.items()}
    step(layer, optimizer)
    for name, value in weights.items():
        assert torch.equal(value, before[name]), name

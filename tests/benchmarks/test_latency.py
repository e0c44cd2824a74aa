from __future__ import annotations

import sys
from pathlib import Path

import latency
import numpy as np
import pytest
import torch
from predict import bare_products, make_model, make_rows

from gssc.deploy import DeployedModel
from gssc.errors import GsscError

# PyTorch Geometric still compiles its helpers the old way.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")


@pytest.mark.parametrize("per_row", [None, 3])
def test_every_side_gives_the_same_answer(tmp_path: Path, per_row: int | None) -> None:
    model = make_model([9, 8, 4], activation="leaky_relu", normalize="row")
    model.save(tmp_path)
    x = make_rows(5, 9, per_row)
    sides = latency.row_sides(model, x, tmp_path)
    assert list(sides)[:4] == ["bare", "logits", "probabilities", "predict.py"]
    assert ("onnxruntime" in sides) == (per_row is None)
    expected = model.predict_proba(x)
    for name in sides.keys() - {"bare", "logits"}:
        found = sides[name]()
        np.testing.assert_allclose(found[0] if isinstance(found, list) else found, expected, atol=1e-5)


@pytest.mark.parametrize("engine", ["NumPy", "torch"])
@pytest.mark.parametrize("per_row", [None, 3])
def test_the_bare_side_multiplies_what_the_model_does(per_row: int | None, engine: str) -> None:
    """Without biases, and with activations that change nothing, both sides are the same numbers, call after call."""
    model = make_model([9, 8, 4])
    layers = [(abs(weight), np.zeros_like(bias)) for weight, bias in model.layers]
    model = DeployedModel(layers, model.class_names)
    x = make_rows(5, 9, per_row)
    run = bare_products(model, x, engine)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(run()), model.logits(x), rtol=1e-5)


def test_a_node_alone_is_answered_as_in_the_whole_graph() -> None:
    """A path 0 - 1 - 2 - 3 - 4 with a triangle at its end and a node without edges."""
    one_way = np.array([[0, 1, 2, 3, 4, 3], [1, 2, 3, 4, 5, 5]])
    edges = np.concatenate([one_way, one_way[::-1]], axis=1)
    gcn = latency.NeighbourGCN(edges, np.random.default_rng(0).random((7, 3), dtype=np.float32), 4, 2)
    whole = gcn.whole()
    for node in range(7):
        for answer in (gcn.by_neighbour_lists, gcn.by_k_hop_subgraph):
            torch.testing.assert_close(answer(node), whole[node])
    sources, targets, weights = gcn.edges_into(np.array([0, 3]))
    assert sorted(zip(targets.tolist(), sources.tolist(), strict=True)) == [
        (0, 0), (0, 1), (3, 2), (3, 3), (3, 4), (3, 5)
    ]  # fmt: skip
    assert dict(zip(sources.tolist(), weights.tolist(), strict=True))[0] == pytest.approx(1 / 2)  # 1 / (degree + 1)


def test_a_median_is_of_single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def step(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(latency.time, "process_time", lambda: now)
    found = latency.medians({"one": lambda: step(1e-4), "two": lambda: step(2e-4)}, repeats=3)
    assert found == pytest.approx({"one": 1e-4, "two": 2e-4})


def test_tables_go_between_the_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(latency, "CASES", {"tiny": {"widths": [3, 4, 2]}})
    monkeypatch.setattr(latency, "IMPORTS", {"import torch": "import json"})
    monkeypatch.setattr(latency, "without_torch", lambda: None)

    def nothing(*_: object, **__: object) -> None:
        raise GsscError("no data")

    monkeypatch.setattr(latency, "load_dataset", nothing)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\nold\n<!-- end of table -->\nafter\n")
    latency.main(["--repeats", "1", "--imports", "1", "--out", str(page)])
    text = page.read_text()
    assert text.startswith("before\n<!-- table -->\n### Rows\n\n| case | rows |")
    assert text.endswith("<!-- end of table -->\nafter\n")
    assert "| tiny | 1,000 |" in text
    assert "Not measured: no data" in text
    assert "| import torch | " in text
    assert "old" not in text
    assert capsys.readouterr().out.startswith("### Rows")


def test_one_node_of_a_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "without_torch", lambda: None)
    ring = np.stack([np.arange(8), np.roll(np.arange(8), 1)])
    edges = np.concatenate([ring, ring[::-1]], axis=1)
    about, (header, lines) = latency.measure_graph(edges, np.eye(8, dtype=np.float32), count=3)
    assert "8 nodes, 16 directed edges, 3 random nodes" in about
    assert "have 5 nodes in the middle, 5 at most" in about
    assert len(lines) == 4
    assert all(len(line) == len(header) for line in lines)


def test_numpy_is_not_measured_with_torch_at_hand() -> None:
    assert "torch" in sys.modules
    with pytest.raises(SystemExit, match="torch must not be imported"):
        latency.measure_rows(1)

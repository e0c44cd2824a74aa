"""The OGB loaders on small archives of the published layout."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gssc.data import load_dataset
from gssc.errors import GsscError

ARXIV = {
    "raw/edge.csv.gz": "0,1\n2,1\n1,2\n3,0\n",
    "raw/node-feat.csv.gz": "0.5,-1\n1,2\n3,4.25\n5,6\n",
    "raw/node-label.csv.gz": "0\n1\n1\n0\n",
    "raw/node_year.csv.gz": "2016\n2017\n2018\n2019\n",
    "raw/num-node-list.csv.gz": "4\n",
    "raw/num-edge-list.csv.gz": "4\n",
    "split/time/train.csv.gz": "0\n1\n",
    "split/time/valid.csv.gz": "2\n",
    "split/time/test.csv.gz": "3\n",
}
PROTEINS = {
    "raw/edge.csv.gz": "0,1\n2,0\n",
    "raw/edge-feat.csv.gz": "0.5,1\n0.1,0\n",
    "raw/node-label.csv.gz": "0,1,1\n1,0,0\n0,0,1\n1,1,1\n",
    "raw/node_species.csv.gz": "3702\n3702\n4932\n4932\n",
    "split/species/train.csv.gz": "0\n1\n",
    "split/species/valid.csv.gz": "2\n",
    "split/species/test.csv.gz": "3\n",
}


@pytest.fixture(autouse=True)
def no_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))


def pack(root: Path, dataset: str, archive: str, tables: dict[str, str]) -> Path:
    path = root / dataset / f"{archive}.zip"
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in tables.items():
            packed.writestr(f"{archive}/{name}", gzip.compress(text.encode()))
    return path


def unpack(root: Path, dataset: str, tables: dict[str, str]) -> None:
    for name, text in tables.items():
        path = root / dataset / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize("packed", [True, False])
def test_arxiv(tmp_path: Path, packed: bool) -> None:
    if packed:
        pack(tmp_path, "ogbn-arxiv", "arxiv", ARXIV)
    else:
        unpack(tmp_path, "ogbn-arxiv", ARXIV)
    graph = load_dataset("ogbn-arxiv", data_root=tmp_path)
    assert graph.edges.tolist() == [[0, 0, 1], [1, 3, 2]]
    assert graph.cleaning.one_way_edges_symmetrised == 2
    assert np.asarray(graph.features).tolist() == [[0.5, -1], [1, 2], [3, 4.25], [5, 6]]
    assert graph.labels.tolist() == [0, 1, 1, 0]
    assert [part.tolist() for part in (graph.train, graph.val, graph.test)] == [[0, 1], [2], [3]]
    assert load_dataset("ogbn-arxiv", data_root=tmp_path, split="time").split == "time"


@pytest.mark.parametrize("packed", [True, False])
def test_proteins(tmp_path: Path, packed: bool) -> None:
    if packed:
        pack(tmp_path, "ogbn-proteins", "proteins", PROTEINS)
    else:
        unpack(tmp_path, "ogbn-proteins", PROTEINS)
    graph = load_dataset("ogbn-proteins", data_root=tmp_path)
    assert not graph.task.has_classes
    assert graph.num_classes == 3
    assert graph.edges.tolist() == [[0, 0], [1, 2]]
    # Node 0 has both edges, node 3 none.
    np.testing.assert_allclose(np.asarray(graph.features), [[0.3, 0.5], [0.5, 1], [0.1, 0], [0, 0]], atol=1e-7)
    assert graph.cleaning.summary() == "nothing to clean"
    assert load_dataset("ogbn-proteins", data_root=tmp_path, split="ratio:2/1/1").split == "ratio 2/1/1 seed=0"


def test_chosen_features(tmp_path: Path) -> None:
    pack(tmp_path, "ogbn-arxiv", "arxiv", {name: text for name, text in ARXIV.items() if "node-feat" not in name})
    with pytest.raises(GsscError, match="its features were not found"):
        load_dataset("ogbn-arxiv", data_root=tmp_path)
    made = load_dataset("ogbn-arxiv", data_root=tmp_path, features="random:7", seed=3)
    assert (made.num_features, made.name) == (7, "ogbn-arxiv (random:7)")
    again = load_dataset("ogbn-arxiv", data_root=tmp_path, features="random:7", seed=3)
    np.testing.assert_array_equal(made.features, again.features)
    stored = tmp_path / "features.npy"
    np.save(stored, np.eye(4, dtype=np.float32))
    mapped = load_dataset("ogbn-arxiv", data_root=tmp_path, features=str(stored))
    assert isinstance(mapped.features, np.memmap)
    np.save(stored, np.eye(3))
    with pytest.raises(GsscError, match="one row per node"):
        load_dataset("ogbn-arxiv", data_root=tmp_path, features=str(stored))
    with pytest.raises(GsscError, match="neither an .npy file nor"):
        load_dataset("ogbn-arxiv", data_root=tmp_path, features="randm:7")


def test_damage_is_named(tmp_path: Path) -> None:
    path = pack(tmp_path, "ogbn-arxiv", "arxiv", {**ARXIV, "raw/edge.csv.gz": "0,1\n2,x\n"})
    with pytest.raises(GsscError, match=r"arxiv\.zip: raw/edge\.csv\.gz cannot be read"):
        load_dataset("ogbn-arxiv", data_root=tmp_path)
    path = pack(tmp_path, "ogbn-proteins", "proteins", {**PROTEINS, "raw/edge-feat.csv.gz": "0.5,1\n"})
    with pytest.raises(GsscError, match="2 edges but 1 rows of edge features"):
        load_dataset("ogbn-proteins", data_root=tmp_path)
    path = pack(tmp_path, "ogbn-arxiv", "arxiv", {**ARXIV, "raw/node-label.csv.gz": ""})
    with pytest.raises(GsscError, match="node-label.csv.gz is empty"):
        load_dataset("ogbn-arxiv", data_root=tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GsscError, match="is not a readable zip"):
        load_dataset("ogbn-arxiv", data_root=tmp_path)

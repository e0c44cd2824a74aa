"""ogbn-arxiv and ogbn-proteins from the archives of the Open Graph Benchmark (Hu et al., 2020).

An archive holds `raw/edge.csv.gz`, `raw/node-feat.csv.gz` (arxiv) or `raw/edge-feat.csv.gz` (proteins),
`raw/node-label.csv.gz` and `split/<how>/{train,valid,test}.csv.gz`; the same files also work unpacked.
OGB publishes no digests for them, so they are used unverified.

Proteins come without node features. As is common, the features of a node are the means of its edges' eight scores.
Targets are 112 binary tasks.
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from gssc.data.entry import SEEDED_SPLITS, Dataset, File, FilePaths, RawGraph
from gssc.data.splits import Split, generator
from gssc.errors import GsscError

_URL = "https://snap.stanford.edu/ogb/data/nodeproppred/"
_ROWS_AT_A_TIME = 1_000_000
_PARTS = ("train", "valid", "test")


class _Tables:
    """The tables of an archive by name, from the zip file or from unpacked folders."""

    def __init__(self, files: FilePaths) -> None:
        self._files = files
        self._zip: zipfile.ZipFile | None = None
        packed = next((path for name, path in files.items() if name.endswith(".zip")), None)
        self.where = packed or next(iter(files.values()))
        if packed is not None:
            try:
                self._zip = zipfile.ZipFile(packed)
            except (zipfile.BadZipFile, OSError):
                raise GsscError(f"{packed} is not a readable zip file, it may be cut short: fetch it again") from None

    def has(self, name: str) -> bool:
        return self._member(name) is not None if self._zip else name in self._files

    def _member(self, name: str) -> str | None:
        assert self._zip is not None
        return next((member for member in self._zip.namelist() if f"/{member}".endswith(f"/{name}")), None)

    def _open(self, name: str) -> IO[str]:
        if not self.has(name):
            raise GsscError(f"{self.where} has no {name}: fetch the whole archive again")
        packed: Any = self._files.get(name)
        if self._zip is not None:
            packed = self._zip.open(str(self._member(name)))
        return io.TextIOWrapper(gzip.open(packed), encoding="utf-8")

    def blocks(self, name: str, dtype: Any) -> Iterator[np.ndarray]:
        """Yield a table as [rows, columns] blocks of at most a million rows."""
        done = 0
        try:
            with self._open(name) as lines:
                while block := list(islice(lines, _ROWS_AT_A_TIME)):
                    yield np.loadtxt(block, dtype=dtype, delimiter=",", ndmin=2)
                    done += len(block)
        except (ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise GsscError(f"{self.where}: {name} cannot be read after row {done} ({error}): fetch it again") from None

    def read(self, name: str, dtype: Any) -> np.ndarray:
        """Return a whole table, [rows, columns]."""
        blocks = list(self.blocks(name, dtype))
        if not blocks:
            raise GsscError(f"{self.where}: {name} is empty: fetch it again")
        return np.concatenate(blocks)


def _splits(tables: _Tables, how: str, folder: str) -> dict[str, Split]:
    """Return the published split under both of its names, "public" and how it was made."""
    train, valid, test = (tables.read(f"{folder}/{part}.csv.gz", np.int64)[:, 0] for part in _PARTS)
    return {"public": (train, valid, test), how: (train, valid, test)}


def load_arxiv(files: FilePaths, seed: int = 0, *, features: str | None = None) -> RawGraph:
    """Read arxiv; `features` may be an .npy file, or "random:<d>" for random features, for scale tests only."""
    tables = _Tables(files)
    if "adj_full.npz" in files:  # the structure as published without features
        edges = _edges_of_adjacency(files["adj_full.npz"])
        labels = tables.read("node-label.csv.gz", np.int64)[:, 0]
        splits = _splits(tables, "time", "split")
        feature_table = "node-feat.csv.gz"
    else:
        edges = tables.read("raw/edge.csv.gz", np.int64).T
        labels = tables.read("raw/node-label.csv.gz", np.int64)[:, 0]
        splits = _splits(tables, "time", "split/time")
        feature_table = "raw/node-feat.csv.gz"
    if features is not None:
        made = features.startswith("random:")
        return RawGraph(
            _chosen_features(features, len(labels), seed), edges, labels, splits, variant=features if made else ""
        )
    if not tables.has(feature_table):
        raise GsscError(
            f"ogbn-arxiv: its features were not found: put arxiv.zip from {_URL}arxiv.zip, or the node-feat.csv.gz "
            f"inside it, into {tables.where.parent}; or, in Python, get random ones from load_dataset with "
            "features='random:128'"
        )
    return RawGraph(tables.read(feature_table, np.float32), edges, labels, splits)


def _edges_of_adjacency(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as stored:
        adjacency = sp.csr_matrix((stored["data"], stored["indices"], stored["indptr"]), shape=tuple(stored["shape"]))
    return np.stack(adjacency.nonzero()).astype(np.int64)


def _chosen_features(features: str, nodes: int, seed: int) -> np.ndarray:
    if match := re.fullmatch(r"random:([1-9]\d*)", features):
        return generator(seed).standard_normal((nodes, int(match[1])), dtype=np.float32)
    path = Path(features)
    if path.suffix != ".npy" or not path.is_file():
        raise GsscError(f"features {features!r} are neither an .npy file nor random:<d>, such as random:128")
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise GsscError(f"{path} cannot be read as .npy ({error}): write it again") from None
    if rows.shape[:1] != (nodes,):
        raise GsscError(f"{path} has shape {rows.shape}, the graph has {nodes} nodes: give one row per node")
    return rows


def load_proteins(files: FilePaths, seed: int = 0) -> RawGraph:
    """Read proteins: edges block by block; the features of a node are the mean scores of its edges."""
    tables = _Tables(files)
    labels = tables.read("raw/node-label.csv.gz", np.float32)
    edges = tables.read("raw/edge.csv.gz", np.int64).T
    nodes = len(labels)
    degree = np.bincount(edges.ravel(), minlength=nodes)
    sums, start = np.zeros((nodes, 0)), 0
    for scores in tables.blocks("raw/edge-feat.csv.gz", np.float32):
        ends = edges[:, start : start + len(scores)]
        if ends.shape[1] < len(scores):
            raise GsscError(f"{tables.where}: more edge features than edges: fetch it again")
        if not sums.size:
            sums = np.zeros((nodes, scores.shape[1]))
        for column in range(scores.shape[1]):
            for end in ends:
                sums[:, column] += np.bincount(end, weights=scores[:, column], minlength=nodes)
        start += len(scores)
    if start != edges.shape[1]:
        raise GsscError(f"{tables.where}: {edges.shape[1]} edges but {start} rows of edge features: fetch it again")
    means = (sums / np.maximum(degree, 1)[:, None]).astype(np.float32)
    # OGB lists each undirected association once.
    return RawGraph(means, np.sort(edges, axis=0), labels, _splits(tables, "species", "split/species"))


def _unpacked(how: str, *tables: str) -> tuple[File, ...]:
    names = [f"raw/{table}.csv.gz" for table in tables] + [f"split/{how}/{part}.csv.gz" for part in _PARTS]
    return tuple(File(name, None) for name in names)


_CITATION = "Hu et al.: Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020"
_ARXIV_STRUCTURE = (
    File("adj_full.npz", None, "920dae5bad3f63b07f5b8883493b298f026778d7358c14b955985bacbbd13771"),
    File("node-label.csv.gz", None, "b06e7cf75d909de66ce49bc4188a6dc525224f85dd6dcb36137de3d9321830d1"),
    File("split/train.csv.gz", None, "84983391900af45194e5db8d977ec9e01d4eda96e20328f3d7575fdd45c6797c"),
    File("split/valid.csv.gz", None, "ebe6cdcd77c75eedbce2064a05a49bc28e2c4a631f49d66b9e9ff317eef993eb"),
    File("split/test.csv.gz", None, "588fb66ce57bcaef51ac0235f0a49a056370ac31fc27c8ebf556d3f5cdd02545"),
    File("node-feat.csv.gz", None, optional=True),
)

ENTRIES = (
    Dataset(
        name="ogbn-arxiv",
        description="computer-science papers, word embeddings, 1,166,243 citations; 40 areas; split by year",
        load=load_arxiv,
        default_split="public",
        splits=("public (by year)", *SEEDED_SPLITS),
        files=(File("arxiv.zip", _URL + "arxiv.zip"),),
        alternatives=(_unpacked("time", "edge", "node-feat", "node-label"), _ARXIV_STRUCTURE),
        address="https://ogb.stanford.edu/docs/nodeprop/",
        licence="ODC-BY",
        citation=_CITATION,
        sizes=(169343, 1157799, 128, 40),
        options=("features",),
    ),
    Dataset(
        name="ogbn-proteins",
        description="proteins of eight species and their associations; 112 binary functions; split by species",
        load=load_proteins,
        default_split="public",
        splits=("public (by species)", "ratio:<a>/<b>/<c>"),
        files=(File("proteins.zip", _URL + "proteins.zip"),),
        alternatives=(_unpacked("species", "edge", "edge-feat", "node-label"),),
        address="https://ogb.stanford.edu/docs/nodeprop/",
        licence="CC0",
        citation=_CITATION,
        sizes=(132534, 39561252, 8, 112),
    ),
)

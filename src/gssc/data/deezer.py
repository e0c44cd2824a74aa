"""Deezer-Europe (Rozemberczki, Sarkar, 2020) with the five 50/25/25 splits of Lim et al. (2021).

Nodes are users, features the artists they like (a sparse multi-hot row; empty for 6,159 users), edges mutual follows.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gssc.data.entry import SEEDED_SPLITS, Dataset, File, FilePaths, RawGraph
from gssc.data.pickles import read_object_array
from gssc.data.splits import Split
from gssc.errors import GsscError

_GRAPH = "https://raw.githubusercontent.com/benedekrozemberczki/datasets/master/deezer_europe/"
_SPLITS = (
    "https://raw.githubusercontent.com/CUAI/Non-Homophily-Large-Scale/c2a1759aecd71d5604aa1a5a4719e3ffded18249/"
    "data/splits/"
)


def load(files: FilePaths, seed: int = 0) -> RawGraph:
    """Read edges, multi-hot features, targets and splits."""
    edges = np.loadtxt(files["deezer_europe_edges.csv"], dtype=np.int64, delimiter=",", skiprows=1).T
    ids, labels = np.loadtxt(files["deezer_europe_target.csv"], dtype=np.int64, delimiter=",", skiprows=1).T
    if not (ids == np.arange(len(ids))).all():
        raise GsscError("deezer_europe_target.csv does not list the users in order: fetch it again")
    features = _multi_hot(files["deezer_europe_features.json"], len(labels))
    path = files["deezer-europe-splits.npy"]
    with path.open("rb") as file:
        stored = read_object_array(file, str(path))
    splits: dict[str, Split] = {}
    for k, split in enumerate(stored):
        train, val, test = (np.asarray(split[part], dtype=np.int64) for part in ("train", "valid", "test"))
        splits[f"fixed-{k}"] = (train, val, test)
    return RawGraph(features, edges, labels, splits)


def _multi_hot(path: Path, nodes: int) -> sp.csr_matrix:
    with path.open(encoding="utf-8") as file:
        artists_of = json.load(file)
    liked = [artists_of.get(str(node), []) for node in range(nodes)]
    indptr = np.concatenate([[0], np.cumsum([len(artists) for artists in liked])])
    indices = np.concatenate([np.asarray(artists, dtype=np.int64) for artists in liked])
    ones = np.ones(len(indices), dtype=np.float32)
    matrix = sp.csr_matrix((ones, indices, indptr), shape=(nodes, int(indices.max()) + 1))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0  # liked or not: repeated entries count once
    return matrix


ENTRIES = (
    Dataset(
        name="deezer-europe",
        description="European Deezer users, artists they like, mutual follows; gender; 6,159 have no feature",
        load=load,
        default_split="fixed-0",
        splits=("fixed-0 to fixed-4", *SEEDED_SPLITS),
        files=(
            File(
                "deezer_europe_edges.csv",
                _GRAPH + "deezer_europe_edges.csv",
                "a4aabf57e3eb20d40d5df7c7d15142b20656d9ca8f77a083106c1ee81226e530",
            ),
            File(
                "deezer_europe_features.json",
                _GRAPH + "deezer_europe_features.json",
                "8d2526372b903f45bf0d1bf6df33416769b99cbb38ba89cdac54848a3143b2db",
            ),
            File(
                "deezer_europe_target.csv",
                _GRAPH + "deezer_europe_target.csv",
                "9d5c5736e1d55361e9caa5ae4f96ea5f40c3a70a8cfaad332defac9d84c6b2c6",
            ),
            File(
                "deezer-europe-splits.npy",
                _SPLITS + "deezer-europe-splits.npy",
                "15dc2ccafca32dd89316334ad12bc47892383abb8f4edd76a90a70780c861c2f",
            ),
        ),
        address="https://github.com/benedekrozemberczki/datasets and https://github.com/CUAI/Non-Homophily-Large-Scale",
        licence="MIT",
        citation="Rozemberczki, Sarkar: Characteristic Functions on Graphs, CIKM 2020; Lim et al., NeurIPS 2021",
        sizes=(28281, 92752, 31241, 2),
    ),
)

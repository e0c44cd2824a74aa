"""Cora and CiteSeer as Planetoid published them (Yang et al., 2016), with the public split.

The eight files of a dataset hold the rows in two groups: `allx` for the first nodes, `tx` for the test nodes
in the order of `test.index`. CiteSeer's test ids have gaps: 15 isolated nodes that neither group holds. They
are kept as nodes with an all-zero feature row and an unknown label, so that ids match those of other libraries.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gssc.data.entry import SEEDED_SPLITS, Dataset, File, FilePaths, RawGraph
from gssc.data.pickles import read_pickle
from gssc.errors import GsscError

_ADDRESS = "https://github.com/kimiyoung/planetoid"
_RAW = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
_VALIDATION = 500


def load(files: FilePaths, seed: int = 0) -> RawGraph:
    """Join the two groups of rows; the public split trains on `x`, the first 20 nodes per class."""
    by_suffix = {name.split(".", 2)[2]: path for name, path in files.items()}
    known, known_targets, test, test_targets, few_targets, neighbours = (
        read_pickle(by_suffix[part]) for part in ("allx", "ally", "tx", "ty", "y", "graph")
    )
    test_ids = np.loadtxt(by_suffix["test.index"], dtype=np.int64)
    nodes = max(len(neighbours), int(test_ids.max()) + 1)
    if known.shape[0] + test.shape[0] > nodes or len(test_ids) != test.shape[0]:
        raise GsscError("the Planetoid files do not fit together: fetch all of them again")

    row_of = np.concatenate([np.arange(known.shape[0]), test_ids])  # where each stored row belongs
    stored = sp.vstack([known, test]).tocoo()
    features = sp.csr_matrix((stored.data, (row_of[stored.row], stored.col)), shape=(nodes, stored.shape[1]))
    labels = np.full(nodes, -1, dtype=np.int64)
    targets = np.concatenate([known_targets, test_targets])
    labels[row_of] = np.where(targets.any(axis=1), targets.argmax(axis=1), -1)

    degrees = [len(neighbours[node]) for node in neighbours]
    source = np.repeat(np.fromiter(neighbours, dtype=np.int64), degrees)
    target = np.concatenate([np.asarray(neighbours[node], dtype=np.int64) for node in neighbours])
    few = len(few_targets)
    public = (np.arange(few), np.arange(few, few + _VALIDATION), np.sort(test_ids))
    return RawGraph(features, np.stack([source, target]), labels, {"public": public})


def _entry(name: str, description: str, sizes: tuple[int, int, int, int], digests: dict[str, str]) -> Dataset:
    files = (f"ind.{name}.{part}" for part in digests)
    return Dataset(
        name=name,
        description=description,
        load=load,
        default_split="public",
        splits=("public", *SEEDED_SPLITS),
        files=tuple(File(file, _RAW + file, digest) for file, digest in zip(files, digests.values(), strict=True)),
        address=_ADDRESS,
        licence="MIT",
        citation="Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
        sizes=sizes,
    )


ENTRIES = (
    _entry(
        "cora",
        "machine-learning papers, bag of words, citations; 7 topics",
        (2708, 5278, 1433, 7),
        {
            "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
            "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
            "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
            "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
            "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
            "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
            "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
            "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
        },
    ),
    _entry(
        "citeseer",
        "computer-science papers, bag of words, citations; 6 topics, 48 isolated nodes",
        (3327, 4552, 3703, 6),
        {
            "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
            "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
            "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
            "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
            "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
            "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
            "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
            "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
        },
    ),
)

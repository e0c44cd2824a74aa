"""The graph of a run: loaded by the settings that name it, and its fingerprint."""

from __future__ import annotations

import hashlib

import numpy as np

from gssc.config import DataSettings
from gssc.data import load_dataset
from gssc.data.disk import check_digests, is_disk_graph, recorded_digest
from gssc.data.splits import labelled_nodes, make_split
from gssc.errors import GsscError
from gssc.graph import Graph


def named_graph(data: DataSettings, data_root: str | None = None) -> Graph:
    """Return the graph that the settings name."""
    if (data.dataset is None) == (data.graph is None):
        raise GsscError("name a dataset, or give your own graph with --graph FILE.npz or FOLDER (one of the two)")
    if data.graph is not None:
        graph = _graph_of_file(data.graph, data)
    else:
        graph = load_dataset(
            str(data.dataset),
            split=data.split,
            seed=data.split_seed,
            setting=data.setting or "transductive",
            data_root=data_root,
        )
    return graph.with_(require_all_classes=True) if data.require_all_classes else graph


def _graph_of_file(path: str, data: DataSettings) -> Graph:
    if is_disk_graph(path):  # a flipped bit in a file that is not read whole would go unnoticed
        check_digests(path)
    graph = Graph.load(path)
    if data.split is not None:
        if len(graph.train) or len(graph.val) or len(graph.test):
            raise GsscError(
                f"{path} has a split of its own, so {data.split!r} cannot be drawn: leave the split out "
                "(--split, data.split), or make the graph again with this one (gssc data import --split)"
            )
        (train, val, test), name = make_split(data.split, graph.labels, data.split_seed)
        graph = graph.with_(train=train, val=val, test=test, split=name)
    elif not len(graph.train):
        if not len(labelled_nodes(graph.labels)):
            raise GsscError(f"{path} has no labels: name their column when you import it (--label COLUMN)")
        raise GsscError(f"{path} has no training nodes: give it a train_mask, or --split ratio:60/20/20")
    return graph.with_(setting=data.setting) if data.setting else graph


def fingerprint(graph: Graph) -> str:
    """Return a digest of everything training can see of a graph."""
    digest = hashlib.sha256()
    features = graph.features
    parts = [features] if isinstance(features, np.ndarray) else [features.data, features.indices, features.indptr]
    parts += [graph.edges, graph.labels, graph.train, graph.val, graph.test]
    for part in parts if graph.edge_weight is None else [*parts, graph.edge_weight]:
        digest.update(f"{part.shape}{part.dtype}".encode())
        recorded = recorded_digest(part)  # of a file that is not read again
        digest.update(np.ascontiguousarray(part).data if recorded is None else recorded.encode())
    digest.update(graph.setting.encode())
    return digest.hexdigest()

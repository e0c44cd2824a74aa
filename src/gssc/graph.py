"""Graph: features, edges, labels and split, validated once, when the graph is made.

A graph here is simple and undirected. Whatever edge list comes in, each edge is kept once as
(smaller, larger); self-loops and repeats are dropped and counted in `Graph.cleaning`. Labels use -1 for
unknown. Features stay as they were loaded: row normalisation is a choice of training, not of data.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gssc.data.array_file import ArrayFile
from gssc.data.arrays import frame_names
from gssc.data.checks import Cleaning, clean_edges, clean_feature_names, clean_features, clean_node_ids
from gssc.data.disk_checks import check_finite, check_nodes, check_weights
from gssc.data.edges import as_edges
from gssc.data.labels import clean_index, clean_labels, refuse_overlap
from gssc.data.structure_features import structure_features
from gssc.errors import GsscError
from gssc.names import counted, printable
from gssc.tasks import Task, node_task

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

__all__ = ["Cleaning", "Graph", "LEARNING_SETTINGS"]

LEARNING_SETTINGS = ("transductive", "inductive", "cold-start")
_LABELS_AT_A_TIME = 1 << 22

Features: TypeAlias = np.ndarray | sp.csr_matrix


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A node-classification problem on one undirected graph.

    Args:
        features: [N, d] numbers, dense, memory-mapped, SciPy sparse or a DataFrame, whose index and columns become
            node_ids and feature_names; kept as float32. None makes them from the edges: degree and position
            (`gssc.data.structure_features`), for graphs that have no features.
        edges: [2, E] node numbers, pairs by name, a DataFrame, a NetworkX graph or a SciPy adjacency (see
            `gssc.data.edges.as_edges`), in any direction, order and repetition; kept once each, sorted.
        labels: [N] class ids (-1 unknown) or class names (None, NaN, "", -1 unknown; "-1" and "1" alone are two
            classes), or [N, T] binary targets with NaN where missing. Left out, every label is unknown.
        train, val, test: node ids or boolean masks; kept as sorted ids. Any may be empty.
        name, split, setting: their names in results. The setting is "transductive" (all is seen in
            training), "inductive" (test nodes and their edges are not) or "cold-start" (in addition, test
            nodes have no edges when they are predicted).
        class_names, node_ids, feature_names: what the numbers stand for, where known.
        edge_weight: [E] numbers above 0, one per edge as given; kept as float32, one per edge as sorted. An edge listed
            several times or in both directions gets the largest of its weights. None if all are 1.
        require_all_classes: refuse a graph that has a class without a training label. By default such a class
            is only mentioned in `notes`.

    Example:
        >>> graph = Graph([[0.0], [1.0], [2.0]], edges=[[0, 1, 1], [1, 0, 2]], labels=["a", "a", "b"])
        >>> graph.num_edges, graph.class_names, graph.homophily()
        (2, ('a', 'b'), 0.5)
        >>> graph.cleaning.summary()
        '1 one-way edge symmetrised'
    """

    features: Features
    edges: np.ndarray
    labels: np.ndarray = None  # type: ignore[assignment]
    train: np.ndarray = None  # type: ignore[assignment]
    val: np.ndarray = None  # type: ignore[assignment]
    test: np.ndarray = None  # type: ignore[assignment]
    name: str = "graph"
    split: str = "unnamed"
    setting: str = "transductive"
    class_names: tuple[str, ...] | None = None
    node_ids: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None
    edge_weight: np.ndarray | None = None
    cleaning: Cleaning = field(default_factory=Cleaning)
    require_all_classes: InitVar[bool] = False
    _checked_features: InitVar[Any] = None  # features that were checked before: not read again
    _checked_edges: InitVar[Any] = None  # edges that were checked before, with their weights

    def __post_init__(self, require_all_classes: bool, _checked_features: Any, _checked_edges: Any) -> None:
        features = self.features
        rows, columns = frame_names(features)
        feature_names = columns if self.feature_names is None else self.feature_names
        if features is not None and features is not _checked_features:
            features = clean_features(features)
        nodes = self._count_nodes() if features is None else int(features.shape[0])
        node_ids = clean_node_ids(rows if self.node_ids is None else self.node_ids, nodes)
        edges, edge_weight, cleaned = self.edges, self.edge_weight, Cleaning()
        if edges is None:
            raise GsscError("edges are None: give the edges of the graph; for a table without edges use GSSCClassifier")
        if edges is not _checked_edges or features is None:
            listed, listed_weight = as_edges(edges, node_ids, nodes)
            edges, edge_weight, cleaned = clean_edges(
                listed, nodes, listed_weight if edge_weight is None else edge_weight
            )
        if features is None:
            features, feature_names = structure_features(edges, nodes, edge_weight)
        labels, class_names = clean_labels(self.labels, nodes, self.class_names)
        parts = {part: clean_index(getattr(self, part), nodes, part) for part in ("train", "val", "test")}
        refuse_overlap(parts)
        canonical = {
            "features": features,
            "edges": edges,
            "edge_weight": edge_weight,
            "labels": labels,
            "class_names": class_names,
            "node_ids": node_ids,
            "feature_names": clean_feature_names(feature_names, int(features.shape[1])),
            "cleaning": self.cleaning + cleaned,
            "name": printable(str(self.name)),
            "split": printable(str(self.split)),
            **parts,
        }
        for entry, value in canonical.items():
            object.__setattr__(self, entry, value)
        if self.setting not in LEARNING_SETTINGS:
            raise GsscError(f"setting {self.setting!r} is not known: use one of {', '.join(LEARNING_SETTINGS)}")
        self._refuse_unlabelled()
        if require_all_classes and self._classes_without_training_label():
            raise GsscError(self._missing_class_note() + "; add a label, drop the class, or allow it")

    def _count_nodes(self) -> int:
        """Return the number of nodes of a graph without features."""
        for named in (self.node_ids, self.labels):
            if named is not None:
                return len(named)
        if sp.issparse(self.edges):
            return int(self.edges.shape[0])
        return int(np.max(as_edges(self.edges, None, 0)[0], initial=-1)) + 1

    def _refuse_unlabelled(self) -> None:
        """Refuse training and validation nodes without a label; the label of a test node may be unknown."""
        for part in ("train", "val"):
            nodes = getattr(self, part)
            known = self.task.known(self.labels[nodes])
            if not self.task.has_classes:
                if len(nodes) and not known.any():
                    raise GsscError(f"{part} holds no known target: every one is NaN; give some, or leave {part} empty")
                continue
            unlabelled = nodes[~known]
            if len(unlabelled):
                raise GsscError(
                    f"{part} holds {counted(len(unlabelled), 'node')} without a label, the first is node "
                    f"{unlabelled[0]}: label it or take it out of {part}"
                )

    @property
    def num_nodes(self) -> int:
        return int(self.features.shape[0])

    @property
    def num_edges(self) -> int:
        """Undirected edges, each counted once."""
        return int(self.edges.shape[1])

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def on_disk(self) -> bool:
        """Whether edges are memory-mapped, as those of a folder of ``gssc data build`` are."""
        return isinstance(self.edges, np.memmap)

    def in_memory(self) -> Graph:
        """Return the graph with float32 features and int64 edges in memory; itself if it is there already."""
        if not self.on_disk and not isinstance(self.features, np.memmap):
            return self
        values: dict[str, Any] = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for entry, dtype in (("features", np.float32), ("edges", np.int64)):
            values[entry] = ArrayFile(values[entry]).whole(dtype)
        for entry in ("labels", "node_ids", "edge_weight"):
            values[entry] = None if values[entry] is None else ArrayFile(values[entry]).whole()
        check_nodes(values["edges"], self.num_nodes)
        check_finite(values["features"], range(self.num_nodes))
        if values["edge_weight"] is not None:
            check_weights(values["edge_weight"], 0)
        return Graph(**values, _checked_features=values["features"], _checked_edges=values["edges"])

    @cached_property
    def task(self) -> Task:
        """The prediction task of the nodes; see :mod:`gssc.tasks`."""
        return node_task(self.labels, self.class_names)

    @property
    def num_classes(self) -> int:
        """Classes, or tasks when targets are multi-label: the width of the prediction."""
        return self.task.width

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the classes or targets; their numbers where they have no names."""
        return self.class_names or tuple(map(str, range(self.num_classes)))

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per remark that does not prevent training."""
        notes = [self._missing_class_note()] if self._classes_without_training_label() else []
        unknown = int((~self.task.known(self.labels[self.test])).sum())
        if unknown and self.task.has_classes:
            notes.append(f"{unknown} test nodes have no label to score against")
        return tuple(notes)

    def _classes_without_training_label(self) -> list[int]:
        if not self.task.has_classes:
            return []
        return np.setdiff1d(np.arange(self.num_classes), self.labels[self.train]).tolist()

    def _missing_class_note(self) -> str:
        missing = self._classes_without_training_label()
        first = missing[0] if self.class_names is None else self.class_names[missing[0]]
        return f"{len(missing)} of {self.num_classes} classes have no training label, the first is {first!r}"

    def with_(self, **changes: Any) -> Graph:
        """Return a copy with some fields replaced; the number of classes never decreases.

        If new `edges` come without weights, edges that the graph already has keep their weight and others get 1.
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        if "edges" in changes:
            values["cleaning"] = Cleaning()
            values["edge_weight"] = None
            if self.edge_weight is not None and "edge_weight" not in changes:
                edges, weights = as_edges(changes["edges"], self.node_ids, self.num_nodes)
                changes = {**changes, "edges": edges, "edge_weight": weights}
                if weights is None:
                    changes["edge_weight"] = self._weight_of(edges)
        if "labels" in changes and self.task.has_classes and self.class_names is None:
            array = np.asarray(changes["labels"])
            if array.ndim == 1 and array.dtype.kind in "iu" and array.max(initial=-1) + 1 < self.num_classes:
                values["class_names"] = self.output_names
        same = {"_checked_features": self.features}
        if not changes.keys() & {"edges", "edge_weight", "features"}:
            same["_checked_edges"] = self.edges
        return Graph(**{**values, **same, **changes})

    def _weight_of(self, edges: Any) -> np.ndarray:
        """Return the weight of each of these edges [2, *], 1 for those that this weighted graph does not have."""
        first, second = np.sort(np.asarray(edges).astype(np.int64), axis=0)
        keys = self.edges[0].astype(np.int64) * self.num_nodes + self.edges[1]
        wanted = first * self.num_nodes + second
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        assert self.edge_weight is not None
        return np.where(keys[place] == wanted, self.edge_weight[place], np.float32(1))

    def training_view(self) -> tuple[Graph, np.ndarray]:
        """Return what training may see, and the original id of each of its nodes.

        Transductive: everything. Inductive and cold-start: test nodes and their edges are removed, and
        the remaining nodes are renumbered.
        """
        if self.setting == "transductive" or not len(self.test):
            return self, np.arange(self.num_nodes)
        seen = np.ones(self.num_nodes, dtype=bool)
        seen[self.test] = False
        kept = np.flatnonzero(seen)
        new_id = np.cumsum(seen) - 1
        both_seen = seen[self.edges].all(axis=0)
        edges = self.edges[:, both_seen]
        if not edges.shape[1]:
            raise GsscError(
                f"no edge is left to train on in the {self.setting} setting once the {len(self.test)} test nodes "
                "and their edges are taken out: use a smaller test set or the transductive setting"
            )
        # A class seen only in test still counts.
        names = self.output_names if self.task.has_classes else self.class_names
        features: Any = self.features[kept]
        if not sp.issparse(features):
            features = np.asarray(features)  # rows picked from a memory map are now in memory
        view = self.with_(
            features=features,
            _checked_features=features,
            edges=new_id[edges],
            edge_weight=None if self.edge_weight is None else self.edge_weight[both_seen],
            labels=self.labels[kept],
            train=new_id[self.train],
            val=new_id[self.val],
            test=None,
            class_names=names,
            node_ids=None if self.node_ids is None else self.node_ids[kept],
        )
        return view, kept

    def evaluation_edges(self) -> np.ndarray:
        """Return the edges a message-passing model may use at test time: in cold-start, without edges of test nodes."""
        if self.setting != "cold-start":
            return self.edges
        unseen = np.zeros(self.num_nodes, dtype=bool)
        unseen[self.test] = True
        return np.ascontiguousarray(self.edges[:, ~unseen[self.edges].any(axis=0)])

    def homophily(self) -> float:
        """Return the share of edges whose two known labels agree (Eq. 4); NaN when no edge has two.

        With multi-label targets each (edge, task) pair known at both ends counts once.
        """
        agree = known = 0
        step, edges = max(1, _LABELS_AT_A_TIME // self.labels[0].size), ArrayFile(self.edges)
        for start in range(0, self.num_edges, step):
            block = edges.columns(start, start + step)
            check_nodes(block, self.num_nodes)
            left, right = self.labels[block[0]], self.labels[block[1]]
            both = self.task.known(left) & self.task.known(right)
            known += int(both.sum())
            agree += int((both & (left == right)).sum())
        return agree / known if known else float("nan")

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, {self.num_features:,} "
            f"{'sparse ' if sp.issparse(self.features) else ''}features, {self.num_classes} {self.task.outputs}; "
            f"split {self.split!r} {len(self.train):,}/{len(self.val):,}/{len(self.test):,}, {self.setting})"
        )

    @classmethod
    def load(cls, path: str | PathLike[str], **changes: Any) -> Graph:
        """Read a graph from .npz (keys x, edge_index, y, train_mask, ...; see `gssc.data.npz`).

        A folder that ``gssc data build`` wrote is opened memory-mapped (see `gssc.data.disk`).
        """
        from gssc.data.disk import is_disk_graph, open_graph
        from gssc.data.npz import load_graph

        return open_graph(path, **changes) if is_disk_graph(path) else load_graph(path, **changes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph to .npz, whole or not at all."""
        from gssc.data.npz import save_graph

        save_graph(self, path)

    @classmethod
    def from_pyg(cls, data: torch_geometric.data.Data, **changes: Any) -> Graph:
        """Build a graph from PyTorch Geometric's `Data`; `changes` override any field."""
        from gssc.data.convert import from_pyg

        return from_pyg(data, **changes)

    def to_pyg(self) -> torch_geometric.data.Data:
        """Return PyTorch Geometric's `Data`, each edge in both directions."""
        from gssc.data.convert import to_pyg

        return to_pyg(self)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        *,
        features: str | None = "x",
        label: str = "y",
        split: str = "split",
        weight: str = "weight",
        **changes: Any,
    ) -> Graph:
        """Build a graph from NetworkX.

        `features`, `label` and `split` name the node attributes to read, `weight` the edge attribute. A name other
        than these defaults that no node or edge has is an error. `features=None` makes features from the structure.
        """
        from gssc.data.convert import from_networkx

        return from_networkx(graph, features=features, label=label, split=split, weight=weight, **changes)

    def to_networkx(self) -> networkx.Graph:
        """Return a NetworkX graph with node attributes x, y and split, and edge attribute weight where there is one."""
        from gssc.data.convert import to_networkx

        return to_networkx(self)

    @classmethod
    def from_scipy(cls, adjacency: Any, features: Any, labels: Any = None, **changes: Any) -> Graph:
        """Build a graph from a SciPy sparse adjacency matrix, whose non-zero entries are the edges' weights.

        `features=None` makes features from the structure.
        """
        from gssc.data.convert import from_scipy

        return from_scipy(adjacency, features, labels, **changes)

    def to_scipy(self) -> sp.csr_matrix:
        """Return the symmetric adjacency matrix of weights, ones where there are none."""
        from gssc.data.convert import to_scipy

        return to_scipy(self)

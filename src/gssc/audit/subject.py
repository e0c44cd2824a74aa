"""The subject of an audit or a plot, read from a folder: model, graph, and keep probabilities of its edges."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import scipy.sparse as sp

from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.graph import Graph
from gssc.run_folder import CONFIG, saved_config
from gssc.run_graph import named_graph
from gssc.train.registry import gigabytes
from gssc.trust.pairs import edge_numbers

AUDITED = 2.0  # maximum size of an audited graph in memory, in gigabytes


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph to audit, and a model trained on it.

    Args:
        graph: the audited graph.
        model: the deployed MLP of the run or classifier.
        keep_probability: keep probability of each edge, [E], NaN for edges that were not in training; None if unknown.
        notes: remarks on missing parts, one line each.
        keep_counts: whether keep probabilities are independent evidence and so count in the score of an edge.
    """

    graph: Graph
    model: DeployedModel
    keep_probability: np.ndarray | None
    notes: list[str] = field(default_factory=list)
    keep_counts: bool = True

    def model_labels(self) -> np.ndarray:
        """Return the label of every node by the model's class numbers, -1 where unknown, [N].

        Another graph may list the same classes in another order.
        """
        graph = self.graph
        numbers = np.array([*(self.model.class_names.index(name) for name in graph.output_names), -1])
        return numbers[graph.labels]


def read_subject(run: str | Path, graph: str | Path | Graph | None = None, data_root: str | None = None) -> Subject:
    """Read a finished run or a saved classifier, and the graph to audit.

    Args:
        run: run folder, or a folder written by :meth:`gssc.GSSCClassifier.save`.
        graph: a graph with the same feature columns and classes, or its ``.npz`` file. A run's own graph if left out; a
            saved classifier does not keep its table, so there it is needed.
        data_root: folder with data files, see :func:`gssc.data.load_dataset`.
    """
    folder = Path(run)
    has_config, has_model = ((folder / name).is_file() for name in ("config.yaml", "model.json"))
    if not (has_config or has_model):
        raise GsscError(f"{folder} is neither a run folder nor a saved classifier: it has no config.yaml or model.json")
    if not has_model and (folder / "metrics.json").is_file():
        raise GsscError(f"{folder} holds no model that predicts from feature rows alone: its model needs the graph")
    if not has_model:
        raise GsscError(
            f"{folder} has no model yet: finish the run with gssc train --out {quote(str(folder))} --resume"
        )
    model = DeployedModel.load(folder)
    given = in_memory(Graph.load(graph)) if isinstance(graph, str | Path) else graph
    where = graph if isinstance(graph, str | Path) else folder if graph is None else "the graph"
    if not has_config:
        return _of_classifier(folder, model, given, where)
    config = saved_config(folder / CONFIG)
    notes: list[str] = []
    if given is None and config.data.graph is not None and not Path(config.data.graph).exists():
        raise GsscError(f"{config.data.graph}, the graph of {folder}, does not exist: name where it is now (--graph)")
    audited = in_memory(named_graph(config.data, data_root)) if given is None else given
    same_nodes = given is None or _same_nodes(audited, config.data, data_root)
    _check(audited, model, where)
    trust = None
    if not same_nodes:
        notes.append(
            "this is not the run's own set of nodes, and a run folder has keep probabilities for its own edges only: "
            "no keep probability for any edge"
        )
    elif not (folder / "edges.npz").is_file():
        notes.append(f"{folder / 'edges.npz'} is missing: no keep probability for any edge")
    elif config.sparsifier.name == "none":
        notes.append("the run had no sparsifier: no keep probability for any edge")
    else:
        trust = _trust(folder / "edges.npz", audited)
        if unseen := int(np.isnan(trust).sum()):
            notes.append(
                f"{unseen:,} of {audited.num_edges:,} edges are not in the run: scored without a keep probability"
            )
    return Subject(audited, model, trust, notes, keep_counts=config.sparsifier.name != "evidence")


def in_memory(graph: Graph) -> Graph:
    """Return a graph on disk as one in memory. Raises GsscError if it is too large to be audited there."""
    if graph.on_disk and gigabytes(graph) > AUDITED:
        raise GsscError(
            f"{graph.name} takes {gigabytes(graph):.1f} GB in memory and an audit several times that; the most is "
            f"{AUDITED:g} GB: audit a part of it (gssc audit --graph PART.npz)"
        )
    return graph.in_memory()


def _of_classifier(folder: Path, model: DeployedModel, graph: Graph | None, where: str | Path) -> Subject:
    if graph is None:
        raise GsscError(
            f"{folder} is a saved classifier, which does not keep its table: "
            "give the graph of the table with --graph FILE.npz"
        )
    _check(graph, model, where)
    return Subject(
        graph, model, None, ["a saved classifier keeps no keep probabilities: edges are scored without them"]
    )


def _same_nodes(graph: Graph, data: Any, data_root: str | None) -> bool:
    """Return whether a graph has the nodes of the run in the same order, judged by their features."""
    try:
        own = in_memory(named_graph(data, data_root))
    except (GsscError, OSError):
        return False
    if own.features.shape != graph.features.shape or sp.issparse(own.features) != sp.issparse(graph.features):
        return False
    if sp.issparse(own.features):
        return bool((own.features != graph.features).nnz == 0)
    return np.array_equal(own.features, graph.features)


def _check(graph: Graph, model: DeployedModel, where: str | Path) -> None:
    if graph.num_features != model.widths[0]:
        raise GsscError(
            f"{where} has {graph.num_features} features per node, but the model was trained on {model.widths[0]}: "
            "give the graph the same columns"
        )
    if model.feature_names and graph.feature_names and list(graph.feature_names) != model.feature_names:
        raise GsscError(f"{where} has other feature names than the model was trained on: give it the same columns")
    if graph.task.name != model.task and not (graph.task.has_classes and (graph.labels < 0).all()):
        raise GsscError(f"{where} and the model differ in kind: one has classes, the other binary targets")
    strange = [name for name in graph.output_names if name not in model.class_names]
    if strange:
        raise GsscError(f"{where} has a class {strange[0]!r} that the model does not have: name classes as in the run")


def _trust(path: Path, graph: Graph) -> np.ndarray:
    """Return the keep probability in a run's file of each edge of the graph, [E]; NaN for edges not in the file."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            edges, probability = file["edge_index"], file["keep_probability"]
        if edges.ndim != 2 or edges.shape != (2, len(probability)):
            raise ValueError(f"edge_index {edges.shape} and keep_probability {probability.shape} do not fit")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise GsscError(f"cannot read {path}: {error}; train the run again, or delete the file to go without") from None
    numbers = edge_numbers(edges, graph.num_nodes)
    order = np.argsort(numbers)
    wanted = edge_numbers(graph.edges, graph.num_nodes)
    trust = np.full(graph.num_edges, np.nan)
    if len(numbers):
        at = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(numbers) - 1)]
        seen = numbers[at] == wanted
        trust[seen] = probability[at[seen]]
    return trust

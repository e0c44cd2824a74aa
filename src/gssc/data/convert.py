"""Conversion of Graph to and from PyTorch Geometric, NetworkX and SciPy. Each library is imported only when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gssc.data.arrays import as_array
from gssc.data.edges import RowOf, edges_of_network
from gssc.data.labels import is_missing, mask_of_numbers
from gssc.data.splits import NO_PART, PART_OF
from gssc.errors import GsscError
from gssc.extras import require
from gssc.graph import Graph
from gssc.names import counted, nearest

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

_PARTS = ("train", "val", "test")
_NAMES = ("name", "split", "setting", "class_names", "node_ids", "feature_names")


def from_pyg(data: torch_geometric.data.Data, *, mask_column: int = 0, **changes: Any) -> Graph:
    """Return a Graph from x, edge_index, edge_weight, y and the three masks of a PyG `Data`.

    Without x, features are made from the structure if `features=None` is given. `mask_column` picks one of several
    splits stored as columns.
    """
    if not hasattr(data, "edge_index") or type(data).__name__ == "HeteroData":
        raise GsscError(f"from_pyg takes a torch_geometric Data, not {type(data).__name__}: one kind of node and edge")
    if data.edge_index is None:
        raise GsscError("the PyG data has no edge_index: GSSC needs edges")
    if data.x is None and "features" not in changes:
        raise GsscError("the PyG data has no x: add node features, or make them from the edges with features=None")
    values: dict[str, Any] = {"features": _from_tensor(data.x), "edges": _from_tensor(data.edge_index)}
    if data.get("edge_weight") is not None:
        values["edge_weight"] = _from_tensor(data.edge_weight)
    nodes = int(data.num_nodes)
    if data.y is not None:
        values["labels"] = _from_tensor(data.y)
    for part in _PARTS:
        mask = data.get(f"{part}_mask")
        if mask is not None:
            array = _from_tensor(mask)
            if array.ndim == 2 and not 0 <= mask_column < array.shape[1]:
                raise GsscError(f"mask_column is {mask_column}, but {part}_mask has columns 0 to {array.shape[1] - 1}")
            mask = array[:, mask_column] if array.ndim == 2 else array
            values[part] = mask_of_numbers(mask, nodes)
    values.update({key: data[key] for key in _NAMES if key in data and data[key] is not None})
    return Graph(**{**values, **changes})


def _from_tensor(tensor: Any) -> Any:
    if not hasattr(tensor, "detach"):
        return tensor
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor  # NumPy has no bfloat16
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    rows = tensor.to_sparse_csr()
    parts = (part().numpy() for part in (rows.values, rows.col_indices, rows.crow_indices))
    return sp.csr_matrix(tuple(parts), shape=tuple(tensor.shape))


def to_pyg(graph: Graph) -> torch_geometric.data.Data:
    """Return a `Data` with x (a sparse CSR tensor where features are sparse), edge_index both ways, y and masks."""
    torch = require("torch", extra="bench")
    pyg = require("torch_geometric.data", extra="bench")
    features = graph.features
    if isinstance(features, np.ndarray):
        x = torch.from_numpy(np.array(features))
    else:
        parts = (torch.from_numpy(np.asarray(a, dtype=np.int64)) for a in (features.indptr, features.indices))
        x = torch.sparse_csr_tensor(*parts, torch.from_numpy(features.data.copy()), size=features.shape)
    both_ways = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    data = pyg.Data(x=x, edge_index=torch.from_numpy(both_ways), y=torch.from_numpy(graph.labels.copy()))
    if graph.edge_weight is not None:
        data.edge_weight = torch.from_numpy(np.tile(graph.edge_weight, 2))
    for part in _PARTS:
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(getattr(graph, part))] = True
        data[f"{part}_mask"] = mask
    for key in _NAMES:
        if getattr(graph, key) is not None:
            data[key] = getattr(graph, key)
    return data


def from_networkx(
    network: networkx.Graph,
    *,
    features: str | None = "x",
    label: str = "y",
    split: str = "split",
    weight: str = "weight",
    **changes: Any,
) -> Graph:
    """Return a Graph from node and edge attributes; nodes keep NetworkX's order, their names become `node_ids`."""
    if not hasattr(network, "nodes") or not hasattr(network, "edges"):
        raise GsscError(f"from_networkx takes a NetworkX graph, not {type(network).__name__}: build one first")
    names = list(network.nodes)
    if not names:
        raise GsscError("the NetworkX graph has no nodes: nothing to learn from")
    of_nodes = [attributes for _, attributes in network.nodes(data=True)]
    _refuse_unused("label", label, "y", "node", of_nodes)
    _refuse_unused("split", split, "split", "node", of_nodes)
    _refuse_unused("weight", weight, "weight", "edge", [attributes for *_, attributes in network.edges(data=True)])
    parts = [_part(name, split, attributes.get(split)) for name, attributes in zip(names, of_nodes, strict=True)]
    rows = RowOf({name: row for row, name in enumerate(names)}, len(names))  # NetworkX treats 1 and "1" as two nodes
    edges, edge_weight = edges_of_network(network, rows, weight)
    values: dict[str, Any] = {
        "features": None if features is None else _attribute_rows(names, of_nodes, features),
        "edges": edges,
        "edge_weight": edge_weight,
        "labels": _attribute_labels(names, [attributes.get(label) for attributes in of_nodes]),
        "node_ids": [name if isinstance(name, str | int) else str(name) for name in names],
        **{part: [index for index, found in enumerate(parts) if found == place] for place, part in enumerate(_PARTS)},
        **{key: network.graph[key] for key in _NAMES if key in network.graph},
    }
    return Graph(**{**values, **changes})


def _refuse_unused(argument: str, name: str, default: str, of: str, attributes: list[dict[Any, Any]]) -> None:
    """Raise GsscError if an attribute that the user named does not occur; a default one may be absent."""
    if name == default or any(name in one for one in attributes):
        return
    known = sorted({str(key) for one in attributes for key in one})
    advice = nearest(name, known) if known else f"the {of}s have no attributes"
    hint = " (to name the split in results: graph.with_(split=...))" if argument == "split" else ""
    raise GsscError(f"{argument}={name!r}: no {of} has such an attribute: {advice}{hint}")


def _attribute_rows(names: list[Any], of_nodes: list[dict[Any, Any]], attribute: str) -> np.ndarray:
    """Return the feature rows, [N, d]. Raises GsscError if their lengths differ."""
    rows = []
    for name, attributes in zip(names, of_nodes, strict=True):
        if attribute not in attributes:
            raise GsscError(
                f"node {name!r} has no attribute {attribute!r}: give every node its feature row, "
                "or make features from the edges with features=None"
            )
        rows.append(np.atleast_1d(as_array(attributes[attribute], f"{attribute!r} of node {name!r}")))
        if rows[-1].shape != rows[0].shape:
            raise GsscError(
                f"node {name!r} has {counted(rows[-1].size, 'feature')} where node {names[0]!r} has {rows[0].size}: "
                "give every node the same number"
            )
    return np.stack(rows)


def _part(name: Any, attribute: str, value: Any) -> int | None:
    """Return 0, 1 or 2 for a node in train, val or test; None if it is in no part."""
    text = "" if is_missing(value) else str(value).strip().lower()
    if text not in PART_OF and text not in NO_PART:
        raise GsscError(
            f"node {name!r} has {value!r} as its {attribute!r}, which is not train, val, test or empty: correct it"
        )
    return PART_OF.get(text)


def _attribute_labels(names: list[Any], labels: list[Any]) -> np.ndarray:
    """Return one label per node, or a row of targets per node if nodes have several."""
    first = next((place for place, value in enumerate(labels) if _is_vector(value)), None)
    if first is None:
        return np.array([None if is_missing(value) else value for value in labels], dtype=object)
    rows = np.full((len(labels), len(labels[first])), np.nan)
    for name, value, row in zip(names, labels, rows, strict=True):
        if is_missing(value):
            continue
        try:
            targets = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise GsscError(f"node {name!r} has targets {value!r}: give 0, 1 or NaN (missing) per task") from None
        if targets.shape != row.shape:
            raise GsscError(
                f"node {name!r} has {counted(targets.size, 'target')} where node {names[first]!r} has {row.size}: "
                "give every node the same number"
            )
        row[:] = targets
    return rows


def _is_vector(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) != 0


def to_networkx(graph: Graph) -> networkx.Graph:
    """Return a NetworkX graph, its nodes named by `node_ids` if there are any; unknown labels are left out."""
    network = require("networkx", extra="bench").Graph()
    names = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()
    for index, name in enumerate(names):
        row = graph.features[index]
        network.add_node(name, x=np.array(row) if isinstance(row, np.ndarray) else row.toarray()[0])
        label = graph.labels[index]
        if not graph.task.has_classes:
            network.nodes[name]["y"] = label.copy()
        elif label >= 0:
            network.nodes[name]["y"] = int(label) if graph.class_names is None else graph.class_names[label]
    for part in _PARTS:
        for index in getattr(graph, part):
            network.nodes[names[index]]["split"] = part
    pairs = [(names[u], names[v]) for u, v in graph.edges.T.tolist()]
    if graph.edge_weight is None:
        network.add_edges_from(pairs)
    else:
        network.add_weighted_edges_from(
            (*pair, weight) for pair, weight in zip(pairs, graph.edge_weight.tolist(), strict=True)
        )
    for key in _NAMES:
        if key != "node_ids" and getattr(graph, key) is not None:
            network.graph[key] = getattr(graph, key)
    return network


def from_scipy(adjacency: Any, features: Any, labels: Any = None, **changes: Any) -> Graph:
    """Return a Graph whose weighted edges are the non-zero entries of a square sparse matrix."""
    if not sp.issparse(adjacency) or adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        shape = getattr(adjacency, "shape", type(adjacency).__name__)
        raise GsscError(f"the adjacency must be a square SciPy sparse matrix, not {shape}: one row and column per node")
    return Graph(**{"features": features, "edges": adjacency, "labels": labels, **changes})


def to_scipy(graph: Graph) -> sp.csr_matrix:
    """Return the symmetric [N, N] adjacency, float32: the edge weights, or ones if edges have none."""
    source, target = graph.edges
    rows, columns = np.concatenate([source, target]), np.concatenate([target, source])
    weights = np.ones(graph.num_edges, dtype=np.float32) if graph.edge_weight is None else graph.edge_weight
    return sp.csr_matrix((np.tile(weights, 2), (rows, columns)), shape=(graph.num_nodes, graph.num_nodes))

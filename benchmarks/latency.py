"""Latency of a prediction, compared with its bare matrix products and with a GCN; and the time to import.

    GSSC_DATA_ROOT=... python benchmarks/latency.py [--repeats 21] [--nodes 60] [--out results/latency.md]

One thread, CPU time, medians, ratios within one run. The bare side multiplies the same matrices in NumPy (SciPy for a
first product of sparse rows) and does nothing else: no bias, no activation, no row normalisation, no checks. The GCN
has two layers of PyTorch Geometric with random weights, the structure of ogbn-arxiv and generated features. It predicts
one node at a time from its two-hop neighbourhood, found by `k_hop_subgraph` or in precomputed neighbour lists.
Measurements with torch in the process come last, because gssc.deploy would use it.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy and torch read it

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from predict import bare_products, make_model, make_rows
from scipy import sparse

from gssc.data import load_dataset
from gssc.deploy import DeployedModel
from gssc.deploy.export import export_run
from gssc.deploy.export.numpy_predictor import Predictor
from gssc.errors import GsscError

WIDTHS = [128, 256, 256, 40]  # ogbn-arxiv's features and classes
CASES: dict[str, dict[str, Any]] = {
    "dense, 128 features": {"widths": WIDTHS},
    "dense, 1,433 features": {"widths": [1_433, 256, 256, 7]},
    "sparse, 18 of 1,433 features": {"widths": [1_433, 256, 256, 7], "per_row": 18},
}
ROWS = (1, 1_000)
IMPORTS = {
    "import numpy": "import numpy",
    "import gssc.deploy": "import gssc.deploy",
    "import gssc.deploy, load a model, answer one row": (
        "import numpy as np, sys; from gssc.deploy import DeployedModel; "
        f"DeployedModel.load(sys.argv[1]).predict_proba(np.ones((1, {WIDTHS[0]}), np.float32))"
    ),
    "import torch": "import torch",
    "import torch_geometric": "import torch_geometric",
}
MARKS = "<!-- table -->", "<!-- end of table -->"
Table = tuple[list[str], list[list[str]]]


def medians(sides: dict[str, Callable[[], object]], repeats: int, least: float = 2e-3) -> dict[str, float]:
    """Return the median seconds per call of each side; sides take turns of at least ``least`` seconds."""
    calls, times = {}, {name: list[float]() for name in sides}
    for name, side in sides.items():
        side()  # warms the caches
        start = time.process_time()
        for _ in range(3):
            side()
        calls[name] = max(1, int(3 * least / max(time.process_time() - start, 1e-7)))
    for _ in range(repeats):
        for name, side in sides.items():
            start = time.process_time()
            for _ in range(calls[name]):
                side()
            times[name].append((time.process_time() - start) / calls[name])
    return {name: median(values) for name, values in times.items()}


def without_torch() -> None:
    """Exit if torch is imported, because its times would be reported as those of NumPy."""
    if "torch" in sys.modules:
        raise SystemExit("torch must not be imported before the NumPy part is measured")


def row_sides(model: DeployedModel, x: Any, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the sides to compare: the bare products, then every way to predict with this model without torch."""
    sides: dict[str, Callable[[], object]] = {
        "bare": bare_products(model, x, "NumPy"),
        "logits": partial(model.logits, x),
        "probabilities": partial(model.predict_proba, x),
        "predict.py": partial(Predictor(export_run(folder, "numpy").folder).predict_proba, x),
    }
    if not sparse.issparse(x):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(export_run(folder, "onnx").folder / "model.onnx", options)
        sides["onnxruntime"] = lambda: session.run(["probabilities"], {"x": x})
    return sides


def measure_rows(repeats: int) -> Table:
    """Return a table with one line per case and number of rows."""
    without_torch()
    columns = ["bare", "logits", "probabilities", "predict.py", "onnxruntime"]
    lines = []
    for title, case in CASES.items():
        # leaky ReLU is what the recipes use; normalisation is theirs for sparse features
        normalize = "row" if "per_row" in case else "none"
        model = make_model(case["widths"], activation="leaky_relu", normalize=normalize, temperature=1.3)
        for rows in ROWS:
            x = make_rows(rows, case["widths"][0], case.get("per_row"))
            with tempfile.TemporaryDirectory() as folder:
                model.save(folder)
                found = medians(row_sides(model, x, Path(folder)), repeats)
            ratios = [f"{found[name] / found['bare']:.2f}" if name in found else "" for name in columns[1:]]
            lines.append([title, f"{rows:,}", f"{1e6 * found['bare']:,.0f}", *ratios])
    return ["case", "rows", "bare products, µs", *(f"{name}, ratio" for name in columns[1:])], lines


class NeighbourGCN:
    """A two-layer GCN, and two exact ways to predict one node.

    Args:
        edges: [2, E], both directions of each.
        features: [N, d].
        hidden: width of the first layer.
        classes: width of the second.
    """

    def __init__(self, edges: np.ndarray, features: np.ndarray, hidden: int, classes: int):
        import torch
        from torch_geometric.nn import GCNConv
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.torch, self.features = torch, torch.from_numpy(features)
        # Degrees of the whole graph, computed once: those of a subgraph would change the prediction.
        self.edges, self.weights = gcn_norm(torch.from_numpy(edges), None, len(features))
        into = sparse.csr_matrix(
            (self.weights.numpy(), (self.edges[1].numpy(), self.edges[0].numpy())), shape=(len(features),) * 2
        )
        self.data, self.sources, self.begins = into.data, into.indices, into.indptr
        self.first = GCNConv(features.shape[1], hidden, normalize=False).eval()
        self.second = GCNConv(hidden, classes, normalize=False).eval()

    def whole(self) -> Any:
        """Return predictions for all nodes."""
        with self.torch.inference_mode():
            hidden = self.first(self.features, self.edges, self.weights).relu()
            return self.second(hidden, self.edges, self.weights)

    def by_k_hop_subgraph(self, node: int) -> Any:
        """Return the prediction for one node from the neighbourhood found by PyTorch Geometric."""
        from torch_geometric.utils import k_hop_subgraph

        with self.torch.inference_mode():
            nodes, edges, place, mask = k_hop_subgraph(
                node, 2, self.edges, relabel_nodes=True, num_nodes=len(self.features)
            )
            weights = self.weights[mask]
            hidden = self.first(self.features[nodes], edges, weights).relu()
            return self.second(hidden, edges, weights)[place[0]]

    def by_neighbour_lists(self, node: int) -> Any:
        """Return the prediction for one node from neighbour lists, with only the edges needed in each layer."""
        near_sources, near_targets, near_weights = self.edges_into(np.array([node]))
        near = np.unique(near_sources)  # includes the node itself: every node is its own neighbour
        sources, targets, weights = self.edges_into(near)
        nodes = np.unique(sources)
        with self.torch.inference_mode():
            hidden = self.first(
                self.features[self.torch.from_numpy(nodes)],
                self.relabelled(nodes, sources, targets),
                self.torch.from_numpy(weights),
            ).relu()
            edges = self.relabelled(nodes, near_sources, near_targets)
            out = self.second(hidden, edges, self.torch.from_numpy(near_weights))
            return out[int(np.searchsorted(nodes, node))]

    def edges_into(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sources, targets and weights of all edges into these nodes."""
        counts = self.begins[nodes + 1] - self.begins[nodes]
        starts = np.repeat(self.begins[nodes] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        places = starts + np.arange(counts.sum())
        return self.sources[places], np.repeat(nodes, counts), self.data[places]

    def relabelled(self, nodes: np.ndarray, *ends: np.ndarray) -> Any:
        """Return edge ends as positions among these (sorted) nodes."""
        return self.torch.from_numpy(np.stack([np.searchsorted(nodes, end) for end in ends]))


def each_node(answer: Callable[[int], object], nodes: np.ndarray) -> np.ndarray:
    """Return the seconds per node, the faster of two turns."""
    turns = np.empty((2, len(nodes)))
    for turn in turns:
        for number, node in enumerate(nodes.tolist()):
            start = time.process_time()
            answer(node)
            turn[number] = time.process_time() - start
    return turns.min(axis=0)


def measure_graph(edges: np.ndarray, features: np.ndarray, count: int) -> tuple[str, Table]:
    """Return a line about the neighbourhoods, and a table of times to predict one node, ours and a GCN's."""
    nodes = np.random.default_rng(0).choice(len(features), size=min(count, len(features)), replace=False)
    model = make_model([features.shape[1], *WIDTHS[1:]], activation="leaky_relu")
    answer = lambda node: model.predict_proba(features[node : node + 1])  # noqa: E731
    without_torch()
    seconds = {"gssc.deploy, NumPy": each_node(answer, nodes)}
    gcn = NeighbourGCN(edges, features, WIDTHS[1], WIDTHS[-1])
    seconds["gssc.deploy, torch imported"] = each_node(answer, nodes)
    seconds["GCN, neighbour lists at hand"] = each_node(gcn.by_neighbour_lists, nodes)
    seconds["GCN, k_hop_subgraph"] = each_node(gcn.by_k_hop_subgraph, nodes)
    sizes = [len(np.unique(gcn.edges_into(np.unique(gcn.edges_into(np.array([node]))[0]))[0])) for node in nodes]
    ours = median(seconds["gssc.deploy, NumPy"])
    lines = [
        [
            name,
            *(f"{1e3 * value:,.3f}" for value in (median(each), np.quantile(each, 0.95))),
            f"{median(each) / ours:.1f}",
        ]
        for name, each in seconds.items()
    ]
    about = (
        f"{len(features):,} nodes, {edges.shape[1]:,} directed edges, {len(nodes)} random nodes; "
        f"two-hop neighbourhoods have {median(sizes):,.0f} nodes in the middle, {max(sizes):,} at most."
    )
    return about, (["answer for one node", "median ms", "95 % within ms", "ratio of medians"], lines)


def measure_imports(repeats: int) -> Table:
    """Return a table of the CPU time of statements in fresh processes."""
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    with tempfile.TemporaryDirectory() as folder:
        make_model(WIDTHS).save(folder)
        for _ in range(repeats):
            for name, statement in IMPORTS.items():
                code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
                command = [sys.executable, "-W", "ignore", "-c", code, folder]
                times[name].append(float(subprocess.check_output(command, text=True)))
    torch = median(times["import torch"])
    lines = [[name, f"{1e3 * median(each):,.0f}", f"{median(each) / torch:.2f}"] for name, each in times.items()]
    return ["statement, fresh process", "median ms", "share of import torch"], lines


def markdown(table: Table) -> list[str]:
    """Return a table as lines of Markdown."""
    header, lines = table
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines)]


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and optionally write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=21, help="turns of each side")
    parser.add_argument("--nodes", type=int, default=60, help="nodes to answer for")
    parser.add_argument("--imports", type=int, default=3, help="fresh processes for each statement")
    parser.add_argument("--out", type=Path, help="write the tables there, between the markers of the file")
    options = parser.parse_args(arguments)
    lines = ["### Rows", "", *markdown(measure_rows(options.repeats)), "", "### One node of a graph", ""]
    try:
        graph = load_dataset("ogbn-arxiv", features=f"random:{WIDTHS[0]}")
        both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
        about, table = measure_graph(both, np.asarray(graph.features), options.nodes)
        lines += [about, "", *markdown(table)]
    except GsscError as error:
        lines += [f"Not measured: {error}"]
    lines += ["", "### Imports", "", *markdown(measure_imports(options.imports))]
    print("\n".join(lines))
    if options.out:
        begin, end = MARKS
        head, rest = options.out.read_text(encoding="utf-8").split(begin)
        text = "\n".join([f"{head}{begin}", *lines, f"{end}{rest.split(end)[1]}"])
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

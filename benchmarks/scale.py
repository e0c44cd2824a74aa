"""Time, memory and accuracy of streamed training by graph size, compared with PyTorch Geometric.

    python benchmarks/scale.py run --folder SCRATCH --out SCRATCH/scale.jsonl
    python benchmarks/scale.py report --out SCRATCH/scale.jsonl

Graphs are built by ``gssc data build`` (csbm: degree 20, 128 features, 5 classes, signal 4, homophily 0.8, 20 labels
per class), and from ogbn-arxiv's structure with generated rows (class mean plus noise, as in csbm). Every measurement
is a separate process with one thread; its result is a line of JSON, and an interrupted run continues after the last
line.

Methods:
    gssc     the default learner, streamed (:class:`gssc.learner.streamed.StreamedLearner`), with its default schedule
    gssc-64  the same with hidden layers of width 64, as the two rivals have
    sage-256 sage with hidden layers of width 256, as gssc has
    limited  gssc under RLIMIT_DATA of 1 GB, libraries included, on a graph whose features are four times that
    gcn      PyTorch Geometric, two GCNConv layers of width 64, full batch
    sage     PyTorch Geometric, two SAGEConv layers of width 64 on sampled neighbourhoods (10 and 10 neighbours), by
             its NeighborLoader where pyg-lib or torch-sparse can be imported, else by a sampler of this file, on NumPy
             arrays; the result names the sampler
    sage-own, sage-own-256  the same with the sampler of this file; not part of ``run``

CPU seconds are those of the process and hardly depend on other load on the machine; seconds are wall-clock time. Items
per second are those of training, without scoring epochs; the time to an accuracy includes everything from opening the
graph on: sketches and teacher for ``gssc``, reading the graph and the sampler's index for the rivals. The files of a
graph are dropped from the page cache before a measurement, if the system allows it.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {f"csbm-1e{power}": (10 ** (power - 1), 10**power) for power in (4, 5, 6, 7)}
LARGEST = {"csbm-1e8": (10_000_000, 100_000_000)}
LIMIT, LIMITED = 1_000_000_000, ("csbm-wide", 500_000, 5_000_000, 2048)  # bytes of memory; 4.1 GB of features
RIVAL_LIMIT = 6_000_000_000  # bytes that a rival may take; above, it counts as not fitting
# CPU time that a rival trains, about what the default schedule takes; at least one epoch.
RIVAL_SECONDS = float(os.environ.get("RIVAL_SECONDS", "30"))


def worker(method: str, folder: str) -> dict[str, Any]:
    """Return the measurements of one method on one graph, in this process."""
    import torch

    torch.set_num_threads(1)
    most = LIMIT if method == "limited" else resource.RLIM_INFINITY if method.startswith("gssc") else RIVAL_LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    drop_from_cache(Path(folder))
    measured = METHODS[method](folder)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **measured,
        "peak_rss": usage.ru_maxrss * 1024,
        "disk_read": _status("/proc/self/io", "read_bytes"),
        "load": os.getloadavg()[0],
    }


def ours(folder: str, hidden: int | None = None) -> dict[str, Any]:
    """Return times of the sketches, pairs and rows, and the accuracy after every epoch of 20 batches.

    A pair is an edge in one direction, like a message of the rivals; an edge compared in both directions is two pairs.
    """
    from gssc.graph import Graph
    from gssc.learner.settings import Config
    from gssc.learner.streamed import ROWS, StreamedLearner

    graph, config = Graph.load(folder), Config()
    config.model.hidden = hidden or config.model.hidden
    begun = clocks()
    training = StreamedLearner(graph, config)
    training.prepare()
    prepared = clocks() - begun
    scoring, predict = np.zeros(2), training.predict

    def timed(nodes: np.ndarray) -> Any:
        before = clocks()
        logits = predict(nodes)
        scoring[:] += clocks() - before
        return logits

    training.predict = timed  # type: ignore[method-assign]
    curve: list[list[float]] = []
    pairs, seconds = 0, {"pairs": np.zeros(2), "rows": np.zeros(2)}  # by the clock and of CPU, without scoring
    last = clocks()
    for record in training.epochs():
        seconds[record.phase] += clocks() - last - scoring
        scoring[:] = 0
        last = clocks()
        pairs += record.edges_kept
        curve.append([*(last - begun).tolist(), record.val_score, record.test_score])
    batches = config.teachers.pair_batches
    drawn = training.pair_epochs * batches * training.settings.train.batch_size
    rows = (len(curve) - training.pair_epochs) * batches * ROWS
    accuracy = training.outcome().kept.test_score
    return {
        "prepare": prepared[0],
        "prepare_cpu": prepared[1],
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "feature_bytes": graph.features.nbytes,
        "items_per_second": drawn / seconds["pairs"][0],
        "items_per_cpu_second": drawn / seconds["pairs"][1],
        "rows_per_cpu_second": rows / seconds["rows"][1],
        "epoch_cpu": 2 * graph.num_edges * seconds["pairs"][1] / drawn,
        "pairs_trained": pairs,
        "accuracy": accuracy,
        "curve": curve,
        "teacher": training.choices.get("teacher"),
        "anonymous": _status("/proc/self/status", "RssAnon", 1024),
        "flops_per_item": flops(lambda: training.descend_on(training.epoch_batches(True), training.class_weight))
        / (batches * training.settings.train.batch_size),
    }


def clocks() -> np.ndarray:
    """Return the seconds of the clock and of the CPU time of this process."""
    return np.array([time.perf_counter(), time.process_time()])


def flops(work: Any) -> float:
    """Return the floating-point operations of the matrix products of some work."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def gcn(folder: str) -> dict[str, Any]:
    """Train a full-batch GCN of PyTorch Geometric and return its measurements."""
    import torch
    from torch_geometric.nn import GCNConv

    begun = clocks()
    graph, x, labels, edge_index = loaded(folder)
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(
        [GCNConv(graph.num_features, 64, cached=True), GCNConv(64, graph.num_classes, cached=True)]
    )

    def forward(drop: bool) -> Any:
        hidden = torch.nn.functional.dropout(layers[0](x, edge_index).relu(), 0.5, drop)
        return layers[1](hidden, edge_index)

    def epoch() -> int:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(True)[train], labels[train])
        loss.backward()
        optimizer.step()
        return int(edge_index.shape[1])

    def score() -> tuple[float, float]:
        with torch.no_grad():
            right = forward(False).argmax(1) == labels
        return float(right[graph.val].float().mean()), float(right[graph.test].float().mean())

    optimizer, train = torch.optim.Adam(layers.parameters(), 0.01, weight_decay=5e-4), torch.from_numpy(graph.train)
    return trained(graph, epoch, score, begun, most=200)


def sage(folder: str, hidden: int = 64, own_sampler: bool = False) -> dict[str, Any]:
    """Train GraphSAGE on sampled neighbourhoods and return its measurements; test nodes use samples too."""
    import torch
    import torch_geometric.typing as pyg
    from torch_geometric.nn import SAGEConv

    begun = clocks()
    graph, x, labels, edge_index = loaded(folder)
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([SAGEConv(graph.num_features, hidden), SAGEConv(hidden, graph.num_classes)])
    own_sampler = own_sampler or not (pyg.WITH_PYG_LIB or pyg.WITH_TORCH_SPARSE)
    make = own_batches if own_sampler else loader_batches
    batches = make(edge_index, graph.num_nodes)

    def forward(everyone: Any, edges: Any, drop: bool) -> Any:
        hidden = torch.nn.functional.dropout(layers[0](x[everyone], edges).relu(), 0.5, drop)
        return layers[1](hidden, edges)

    def epoch() -> int:
        used = 0
        for seeds, everyone, edges in batches(graph.train, 512, True):
            optimizer.zero_grad()
            logits = forward(everyone, edges, True)[: len(seeds)]
            torch.nn.functional.cross_entropy(logits, labels[seeds]).backward()
            optimizer.step()
            used += int(edges.shape[1])
        return used

    def right(nodes: np.ndarray) -> float:
        with torch.no_grad():
            found = [
                (forward(everyone, edges, False)[: len(seeds)].argmax(1) == labels[seeds])
                for seeds, everyone, edges in batches(nodes, -(-len(nodes) // 8), False)
            ]
        return float(torch.cat(found).float().mean())

    def score() -> tuple[float, float]:
        return right(graph.val), right(graph.test)

    optimizer = torch.optim.Adam(layers.parameters(), 0.01, weight_decay=5e-4)
    measured = trained(graph, epoch, score, begun, most=100)
    return {**measured, "sampler": "of this file" if own_sampler else "NeighborLoader"}


Batches = Callable[[np.ndarray, int, bool], Iterator[tuple[Any, Any, Any]]]  # seeds, nodes with seeds first, edges


def loader_batches(edge_index: Any, nodes: int) -> Batches:
    """Return a function that yields the batches of NeighborLoader for some nodes, of a size, shuffled or not."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.sampler import NeighborSampler

    data = Data(edge_index=edge_index, num_nodes=nodes)
    sampler = NeighborSampler(data, [10, 10])  # its index is built once

    def batches(seeds: np.ndarray, size: int, shuffle: bool) -> Iterator[tuple[Any, Any, Any]]:
        chosen = torch.from_numpy(seeds)
        for batch in NeighborLoader(data, [10, 10], chosen, neighbor_sampler=sampler, batch_size=size, shuffle=shuffle):
            yield batch.n_id[: batch.batch_size], batch.n_id, batch.edge_index

    return batches


def own_batches(edge_index: Any, nodes: int) -> Batches:
    """Return the same function for the sampler of this file."""
    import torch

    sample, rng = neighbour_sampler(edge_index.numpy(), nodes), np.random.default_rng(0)

    def batches(seeds: np.ndarray, size: int, shuffle: bool) -> Iterator[tuple[Any, Any, Any]]:
        order = rng.permutation(seeds) if shuffle else seeds
        for part in np.array_split(order, -(-len(order) // size)):
            yield torch.from_numpy(part), *sample(part, rng)

    return batches


def neighbour_sampler(edge_index: np.ndarray, nodes: int, fanout: int = 10) -> Any:
    """Return a function that samples two hops of neighbours: node numbers, seeds first, and edges among them."""
    import torch

    order = np.argsort(edge_index[1], kind="stable")
    neighbours = edge_index[0][order].astype(np.int32)
    starts = np.searchsorted(edge_index[1][order], np.arange(nodes + 1))

    def sample(seeds: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
        sources, targets, frontier = [], [], seeds
        for _ in range(2):
            size = starts[frontier + 1] - starts[frontier]
            some = frontier[size > 0]
            picks = (rng.random((len(some), fanout)) * (size[size > 0])[:, None]).astype(np.int64)
            sources.append(neighbours[starts[some][:, None] + picks].ravel())
            targets.append(np.repeat(some, fanout))
            frontier = np.unique(sources[-1])
        others = np.setdiff1d(np.concatenate([*sources, *targets]), seeds)
        everyone = np.concatenate([seeds, others])
        place = np.argsort(everyone)
        ends = [place[np.searchsorted(everyone[place], np.concatenate(side))] for side in (sources, targets)]
        return torch.from_numpy(everyone), torch.from_numpy(np.stack(ends))

    return sample


def loaded(folder: str) -> tuple[Any, Any, Any, Any]:
    """Return the graph in memory, in the form of PyTorch Geometric."""
    import torch

    from gssc.graph import Graph

    graph = Graph.load(folder)
    x = torch.from_numpy(np.array(graph.features, dtype=np.float32))
    edges = np.asarray(graph.edges).astype(np.int64)
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    return graph, x, torch.from_numpy(np.array(graph.labels)), both


def trained(graph: Any, epoch: Any, score: Any, begun: np.ndarray, most: int) -> dict[str, Any]:
    """Train until the time or the number of epochs is used up, with a score after every tenth and the last epoch.

    Args:
        graph: the problem.
        epoch: trains an epoch and returns the number of edges used.
        score: returns validation and test accuracy.
        begun: :func:`clocks` before the graph was read.
        most: number of epochs.
    """
    used, curve, training, started = 0, [], np.zeros(2), clocks()
    for number in range(most):
        before = clocks()
        used += epoch()
        training += clocks() - before
        over = (clocks() - started)[1] > RIVAL_SECONDS
        if number % 10 == 9 or over or number + 1 == most:
            curve.append([*(clocks() - begun).tolist(), *score()])
        if over:
            break
    best = max(curve, key=lambda entry: entry[2])
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "feature_bytes": graph.features.nbytes,
        "prepare_cpu": float((started - begun)[1]),
        "items_per_second": used / training[0],
        "items_per_cpu_second": used / training[1],
        "epoch_cpu": training[1] / (number + 1),
        "epochs": number + 1,
        "accuracy": best[3],
        "curve": curve,
        "flops_per_item": flops(epoch) * (number + 1) / used,
    }


METHODS = {
    "gssc": ours,
    "gssc-64": partial(ours, hidden=64),
    "limited": ours,
    "gcn": gcn,
    "sage": sage,
    "sage-256": partial(sage, hidden=256),
    "sage-own": partial(sage, own_sampler=True),
    "sage-own-256": partial(sage, hidden=256, own_sampler=True),
}


def drop_from_cache(folder: Path) -> None:
    """Ask the system to drop the files of a graph from the page cache."""
    for path in folder.glob("*.npy"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _status(path: str, name: str, unit: int = 1) -> int:
    line = next((line for line in Path(path).read_text().splitlines() if line.startswith(f"{name}:")), ": 0")
    return int(line.split()[1]) * unit


def passes(folder: Path, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the CPU time of building, of the sketches and of a shuffled pass over all pairs, by number of edges."""
    import torch

    from gssc.data.build import build_graph
    from gssc.data.synthetic import CsbmStream
    from gssc.graph import Graph
    from gssc.train.edge_stream import EdgeStream, Position
    from gssc.trust.streamed import Sketches

    torch.set_num_threads(1)
    for edges in sizes:
        path = folder / f"passes-{edges}.graph"
        nodes = edges // 10
        parts = {"val": min(2000, nodes // 5), "test": min(5000, nodes // 5)}
        source = CsbmStream(nodes=nodes, num_edges=edges, features=128, signal=4, **parts)
        times = [time.process_time()]
        build_graph(source, path, overwrite=True)
        times.append(time.process_time())
        graph = Graph.load(path)
        Sketches.of(graph.features, graph.edges)
        times.append(time.process_time())
        pairs = sum(len(batch.index) for batch in EdgeStream(graph.edges, 512).batches(Position()))
        times.append(time.process_time())
        yield {
            "edges": graph.num_edges,
            "pairs": pairs,
            **dict(zip(("build", "sketches", "read"), np.diff(times).tolist(), strict=True)),
        }


def turns(folder: str, hidden: int, rounds: int) -> str:
    """Return items per CPU second of gssc and of GraphSAGE with both samplers, measured in turns, best of all rounds.

    A turn is 20 batches of pairs, or 6 batches of 512 training nodes, with the making of the batches. NeighborLoader
    takes part if ``NEIGHBOR_SAMPLE`` is the path of a library with the operator ``torch_sparse::neighbor_sample``.
    """
    import torch
    import torch_geometric.typing as pyg
    from torch_geometric.nn import SAGEConv

    from gssc.graph import Graph
    from gssc.learner.settings import Config
    from gssc.learner.streamed import StreamedLearner
    from gssc.train.process import computing

    samplers: dict[str, Any] = {"sampler of this file": own_batches}
    if library := os.environ.get("NEIGHBOR_SAMPLE"):
        torch.ops.load_library(library)
        pyg.WITH_TORCH_SPARSE = True
        samplers["NeighborLoader"] = loader_batches
    config = Config()
    config.model.hidden = hidden
    rates: dict[str, list[float]] = {}
    with computing(1):
        training = StreamedLearner(Graph.load(folder), config)
        training.prepare()
        graph, x, labels, edge_index = loaded(folder)
        layers = torch.nn.ModuleList([SAGEConv(graph.num_features, hidden), SAGEConv(hidden, graph.num_classes)])
        optimizer = torch.optim.Adam(layers.parameters(), 0.01, weight_decay=5e-4)
        made = {name: make(edge_index, graph.num_nodes) for name, make in samplers.items()}

        def pairs() -> int:
            training.descend_on(training.epoch_batches(True), training.class_weight)
            return config.teachers.pair_batches * training.settings.train.batch_size

        def messages(batches: Batches) -> int:
            used, chosen = 0, np.random.default_rng(0).permutation(graph.train)[: 6 * 512]
            for seeds, everyone, edges in batches(chosen, 512, True):
                optimizer.zero_grad()
                first = torch.nn.functional.dropout(layers[0](x[everyone], edges).relu(), 0.5)
                logits = layers[1](first, edges)[: len(seeds)]
                torch.nn.functional.cross_entropy(logits, labels[seeds]).backward()
                optimizer.step()
                used += int(edges.shape[1])
            return used

        work = {"gssc": pairs, **{name: partial(messages, batches) for name, batches in made.items()}}
        for _ in range(rounds + 1):
            for name, take in work.items():
                before = clocks()
                rates.setdefault(name, []).append(take() / float((clocks() - before)[1]))
    best = {name: max(found[1:]) for name, found in rates.items()}  # the first round warms up
    lines = [f"{Path(folder).name}, width {hidden}, load average {os.getloadavg()[0]:.1f}"]
    for name, rate in best.items():
        median = float(np.median(rates[name][1:]))
        lines.append(f"  {rate:9,.0f} (median {median:,.0f})  {name}: gssc {best['gssc'] / rate:.2f} times")
    return "\n".join(lines) + "\n"


# The runs ------------------------------------------------------------------------------------------------------------


def cells(largest: bool) -> Iterator[tuple[str, str]]:
    """Yield graphs and methods in the order of measurement."""
    yield "csbm-1e4", "gssc"
    for name in ("csbm-1e5", "csbm-1e6", "arxiv", "csbm-1e7"):
        yield from ((name, method) for method in ("gssc", "sage-256", "gssc-64", "sage", "gcn"))
    yield LIMITED[0], "limited"
    if largest:
        yield "csbm-1e8", "gssc"


def run(folder: Path, out: Path, largest: bool, graphs: list[str]) -> None:
    """Build missing graphs and run missing measurements, of all graphs or of those named."""
    done = {(line["graph"], line["method"]) for line in lines_of(out)}
    for name, method in cells(largest):
        if (name, method) in done or (graphs and name not in graphs):
            continue
        path = folder / f"{name}.graph"
        built = build(name, path)
        command = [sys.executable, __file__, "worker", method, str(path)]
        started = time.perf_counter()
        process = subprocess.run(command, capture_output=True, text=True)
        line: dict[str, Any] = {"graph": name, "method": method, "wall": time.perf_counter() - started, **built}
        if process.returncode == 0:
            line.update(json.loads(process.stdout.splitlines()[-1]))
        else:
            line["error"] = process.stderr.strip().splitlines()[-1][:200] if process.stderr.strip() else "killed"
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        sys.stderr.write(f"{name} {method} {line['wall']:.0f} s {line.get('accuracy', line.get('error'))}\n")


def build(name: str, path: Path) -> dict[str, Any]:
    """Build a graph unless it exists and return the time if it was built now."""
    if path.exists():
        return {}
    sys.stderr.write(f"building {name}\n")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    started, cpu = time.perf_counter(), usage.ru_utime + usage.ru_stime
    if name == "arxiv":
        build_arxiv(path)
    else:
        nodes, edges, width = (*{**SIZES, **LARGEST}[name], 128) if name != LIMITED[0] else LIMITED[1:]
        numbers = {
            "nodes": nodes,
            "edges": edges,
            "features": width,
            "signal": 4,
            "val": min(2000, nodes // 5),
            "test": min(5000, nodes // 5),
        }
        options = [text for option, value in numbers.items() for text in (f"--{option}", str(value))]
        command = [sys.executable, "-m", "gssc", "data", "build", "csbm", *options, "--out", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"build": time.perf_counter() - started, "build_cpu": usage.ru_utime + usage.ru_stime - cpu}


def build_arxiv(path: Path) -> None:
    """Build ogbn-arxiv's citations, labels and split with 128 generated features: class mean plus noise."""
    from gssc.data import load_dataset
    from gssc.data.build import build_graph
    from gssc.data.graph_stream import InMemoryStream

    graph = load_dataset("ogbn-arxiv", features="random:128")
    means = np.random.default_rng(1).standard_normal((graph.num_classes, 128)).astype(np.float32)
    means *= 4 / np.linalg.norm(means, axis=1, keepdims=True)
    build_graph(InMemoryStream(graph.with_(features=graph.features + means[graph.labels])), path)


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Return the measurements so far."""
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


def report(out: Path) -> str:
    """Return a table of the measurements, and the growth of ours with the number of edges."""
    lines = lines_of(out)
    rows = [
        "| graph | edges | features, MB | method | items/s (CPU) | kflop per item | epoch, CPU s | peak RSS, MB | "
        "disk read, MB | accuracy | CPU s to it |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        if "error" in line:
            rows.append(f"| {line['graph']} | | | {line['method']} | {line['error']} | | | | | | |")
            continue
        rows.append(
            f"| {line['graph']} | {line['edges']:,} | {line['feature_bytes'] / 1e6:,.0f} | {method_of(line)} | "
            f"{line['items_per_cpu_second']:,.0f} | {line['flops_per_item'] / 1e3:,.0f} | {line['epoch_cpu']:,.1f} | "
            f"{line['peak_rss'] / 1e6:,.0f} | {line['disk_read'] / 1e6:,.0f} | {line['accuracy']:.4f} | "
            f"{to_accuracy(line):,.1f} |"
        )
    sizes = [line for line in lines if line["method"] == "gssc" and line["graph"].startswith("csbm-1e")]
    if len(sizes) > 1:
        edges = np.log([line["edges"] for line in sizes])
        for what in ("epoch_cpu", "prepare_cpu"):
            slope = np.polyfit(edges, np.log([line[what] for line in sizes]), 1)[0]
            rows.append(f"\nGrowth exponent of {what} in edges: {slope:.3f}.")
    return "\n".join(rows) + "\n"


def method_of(line: dict[str, Any]) -> str:
    """Return the method of a measurement, with its sampler where that is NeighborLoader."""
    return line["method"] + (" (NeighborLoader)" if line.get("sampler") == "NeighborLoader" else "")


GRAPHS = {  # nodes, undirected edges, features, bytes of a feature
    "ogbn-papers100M": (111_059_956, 1_615_685_872, 128, 2),
    "a billion edges": (50_000_000, 1_000_000_000, 128, 2),
}
CORES, EFFICIENCY = 16, 0.8  # assumed: of a machine, and of a process among many beside one alone
SKETCH = 320  # bytes per node while the sketches are made, once per machine
PARAMETERS, STEP = 200_000, 8192  # of the MLP, and pairs of a step in each process
PAIRS, ROWS_TAUGHT = 5 * 20 * 8192, 45 * 20 * 1024  # of the default schedule


def project(out: Path, measured: Path) -> str:
    """Return projected hours, memory, disk and network of two large graphs on 1, 8 and 64 machines."""
    sizes = [json.loads(line) for line in measured.read_text(encoding="utf-8").splitlines()]
    ours = [line for line in lines_of(out) if line["method"] == "gssc"]
    built = [line for line in ours if "build_cpu" in line]
    sizes += [{"edges": line["edges"], "build": line["build_cpu"], "sketches": line["prepare_cpu"]} for line in built]
    largest = max(sizes, key=lambda line: line["edges"])
    slowest = max(ours, key=lambda line: line["edges"])  # small graphs are faster: pairs share more rows
    rate, row_rate = slowest["items_per_cpu_second"], slowest["rows_per_cpu_second"]
    own = min(line["anonymous"] for line in ours)  # of a process, libraries included, without sketches
    rows = [
        f"Measured on {slowest['graph']}: {rate:,.0f} pairs and {row_rate:,.0f} rows per CPU second; "
        f"building {1e6 * largest['build'] / largest['edges']:.1f} and sketches "
        f"{1e6 * largest['sketches'] / largest['edges']:.1f} CPU seconds per million edges "
        f"(with 0.1 million nodes of 128 features), at {largest['edges']:,} edges.\n",
        "| graph | machines | build, h | sketches, h | default schedule, h | one pass over all pairs, h | "
        "memory per machine, GB | disk per machine, GB | network per machine and pass, GB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (nodes, edges, width, size) in GRAPHS.items():
        scale = edges / largest["edges"]
        disk = (nodes * (width * size + 8) + 8 * edges) / 1e9
        for machines in (1, 8, 64):
            processes = machines * CORES
            workers = processes * EFFICIENCY if processes > 1 else 1
            speed, schedule = rate * workers, (PAIRS / rate + ROWS_TAUGHT / row_rate) / workers
            steps = 2 * edges / (STEP * processes)
            network = 0 if machines == 1 else steps * 2 * 4 * PARAMETERS / 1e9
            hours = [scale * largest["build"], scale * largest["sketches"], schedule, 2 * edges / speed]
            rows.append(
                f"| {name} | {machines} | "
                + " | ".join(f"{value / 3600:.3f}" for value in hours)
                + f" | {(SKETCH * nodes + CORES * own) / 1e9:.1f} | {disk:,.0f} | {network:,.0f} |"
            )
    return "\n".join(rows) + "\n"


def to_accuracy(line: dict[str, Any]) -> float:
    """Return the CPU seconds until the validation score is within half a point of its best."""
    best = max(entry[2] for entry in line["curve"])
    return float(next(entry[1] for entry in line["curve"] if entry[2] >= best - 0.005))


def main() -> None:
    """Run, report, or measure one cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--folder", type=Path, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--largest", action="store_true", help="also 10^8 edges: 60 GB of disk")
    runs.add_argument("--graphs", nargs="+", default=[], help="names of graphs, such as csbm-1e6; default all")
    reports = commands.add_parser("report")
    reports.add_argument("--out", type=Path, required=True)
    growth = commands.add_parser("passes", help="CPU time of the passes over a graph, by its number of edges")
    growth.add_argument("--folder", type=Path, required=True)
    growth.add_argument("--sizes", type=int, nargs="+", default=[30_000, 100_000, 300_000, 1_000_000])
    projects = commands.add_parser("project", help="hours and memory of larger graphs, from what was measured")
    projects.add_argument("--out", type=Path, required=True)
    projects.add_argument("--passes", type=Path, required=True, help="output of the subcommand passes")
    beside = commands.add_parser("turns", help="items per CPU second of gssc and GraphSAGE, measured in turns")
    beside.add_argument("graph")
    beside.add_argument("--hidden", type=int, default=256)
    beside.add_argument("--rounds", type=int, default=6)
    one = commands.add_parser("worker")
    one.add_argument("method", choices=tuple(METHODS))
    one.add_argument("graph")
    args = parser.parse_args()
    if args.command == "run":
        run(args.folder, args.out, args.largest, args.graphs)
    elif args.command == "project":
        sys.stdout.write(project(args.out, args.passes))
    elif args.command == "passes":
        for line in passes(args.folder, args.sizes):
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    elif args.command == "turns":
        sys.stdout.write(turns(args.graph, args.hidden, args.rounds))
    elif args.command == "report":
        sys.stdout.write(report(args.out))
    else:
        sys.stdout.write(json.dumps(worker(args.method, args.graph)) + "\n")


if __name__ == "__main__":
    main()

"""``gssc demo``: compares GSSC with an MLP, label spreading and a GCN on handwritten digits in less than a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gssc.graph import Graph

EXAMPLES = """\
examples:
  gssc demo
  gssc demo --seed 1

There are 1,797 images of digits, each connected to its 8 nearest neighbours, with 5 labels per class. 300 of the images
are left out of the graph and arrive after training, as they would at a service.
"""
LATER_ROWS = 300


@dataclass
class Contestant:
    """One row of the table: predictors of graph nodes and of later rows, and the time that they take."""

    name: str
    training_seconds: float
    predict_nodes: Callable[[], np.ndarray]
    predict_later: Callable[[np.ndarray], np.ndarray]
    serves_without_graph: str


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of training")


def run(args: Any) -> None:
    """Train the four models and print one table."""
    from rich.console import Console
    from rich.table import Table

    from gssc.data import digits
    from gssc.extras import require

    require("torch", extra="train")
    console = Console()
    everything = digits(seed=args.seed)
    known, later = hold_out(everything, LATER_ROWS, np.random.default_rng(args.seed))
    rows, truth = everything.features[later], everything.labels[later]
    console.print(
        f"digits: {known.num_nodes:,} images in a graph of {known.num_edges:,} edges, {len(known.train)} of them "
        f"labelled; {len(later)} more images arrive after training and are not in the graph",
        highlight=False,
    )
    table = Table(title="Digits, 5 labels per class")
    table.add_column("method")
    for heading in ("accuracy on the graph", "accuracy on unseen rows", "training", "1,000 predictions"):
        table.add_column(heading, justify="right")
    table.add_column("serves without the graph")
    for train in (label_spreading, mlp, gcn, gssc):
        one = train(known, args.seed)
        table.add_row(
            one.name,
            f"{(one.predict_nodes()[known.test] == known.labels[known.test]).mean():.1%}",
            f"{(one.predict_later(rows) == truth).mean():.1%}",
            f"{one.training_seconds:.1f} s",
            f"{time_per_thousand(one, known):.2f} ms",
            one.serves_without_graph,
        )
    console.print(table)
    console.print("GSSC used the graph in training only. The result is an MLP that predicts from a row alone.")


def hold_out(graph: Graph, count: int, rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """Return the graph without ``count`` of its test nodes, and the ids of those."""
    later = np.sort(rng.choice(graph.test, count, replace=False))
    known, ids = graph.with_(test=later, setting="inductive").training_view()
    remaining = np.isin(ids, np.setdiff1d(graph.test, later))
    return known.with_(test=remaining, setting="transductive"), later


def time_per_thousand(one: Contestant, graph: Graph) -> float:
    """Return the milliseconds for 1,000 predictions: of rows where possible, else of a pass over the whole graph."""
    rows = graph.features[np.arange(1000) % graph.num_nodes]
    call = one.predict_nodes if one.serves_without_graph == "no" else lambda: one.predict_later(rows)
    times = []
    for _ in range(7):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times))


def gssc(graph: Graph, seed: int) -> Contestant:
    """Train the default learner, with a progress bar."""
    from gssc.progress import EpochProgress
    from gssc.recipes import recipe
    from gssc.result import finished, make_training

    config = recipe("digits")
    config.train.seed = seed
    training = make_training(graph, config)
    with EpochProgress(training) as progress:
        trained = finished(training, progress.show)
    model = trained.deployed()
    return Contestant("GSSC", trained.seconds, lambda: model.predict(graph.features), model.predict, "yes")


def mlp(graph: Graph, seed: int) -> Contestant:
    """Train an MLP on labels and features only."""
    predict, seconds = supervised("mlp", graph, seed)
    no_edges = np.empty((2, 0), dtype=np.int64)
    return Contestant("MLP", seconds, lambda: predict(graph.features, no_edges), lambda x: predict(x, no_edges), "yes")


def gcn(graph: Graph, seed: int) -> Contestant:
    """Train a GCN; a row that arrives later has no neighbours."""
    predict, seconds = supervised("gcn", graph, seed)
    no_edges = np.empty((2, 0), dtype=np.int64)
    return Contestant(
        "GCN", seconds, lambda: predict(graph.features, graph.edges), lambda x: predict(x, no_edges), "no"
    )


def supervised(name: str, graph: Graph, seed: int) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], float]:
    """Train a model of the registry on raw pixels; return a predictor of rows and edges, and the seconds."""
    import torch

    from gssc.config import parse_config
    from gssc.result import fit
    from gssc.train.supervised import SupervisedTraining, both_directions

    result = fit(graph, parse_config({"model": {"name": name}, "train": {"seed": seed, "normalize": "none"}}))
    training = result.training
    assert isinstance(training, SupervisedTraining)

    @torch.no_grad()
    def predict(rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
        logits = training.model(torch.from_numpy(rows), both_directions(torch.from_numpy(edges)))
        return np.asarray(logits.argmax(1))

    return predict, result.seconds


def label_spreading(graph: Graph, seed: int) -> Contestant:
    """Fit scikit-learn's label spreading; it keeps every training row to compare new ones with."""
    from gssc.extras import require

    labels = np.full(graph.num_nodes, -1)
    labels[graph.train] = graph.labels[graph.train]
    model = require("sklearn.semi_supervised", "data").LabelSpreading(kernel="knn", n_neighbors=8)
    started = time.perf_counter()
    with np.errstate(invalid="ignore"):  # it divides by zero for images that no label reaches
        model.fit(graph.features, labels)
    seconds = time.perf_counter() - started

    def predict(rows: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.asarray(model.predict(rows))

    return Contestant("label spreading", seconds, lambda: model.transduction_, predict, "keeps all rows")

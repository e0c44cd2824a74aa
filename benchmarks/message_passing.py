"""Time of a training step of GCN and GAT, with this package's message passing and with PyTorch Geometric's layers.

    python benchmarks/message_passing.py --out results/message_passing.md

One thread per side, same widths, same graph (Cora's size: 2,708 nodes, 5,278 edges, 1,433 features, 18 per row). The
sides take turns, and the median of each is reported. PyTorch Geometric gets dense rows and caches its normalisation.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from gssc.features import SparseRows
from gssc.models.gat import GAT
from gssc.models.gcn import GCN

NODES, EDGES, FEATURES, CLASSES = 2708, 5278, 1433, 7


class PyGGCN(nn.Module):
    """GCN with two cached layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 64, cached=True), GCNConv(64, CLASSES, cached=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits of every node."""
        hidden = F.relu(self.first(F.dropout(x, 0.5, self.training), edge_index))
        return self.second(F.dropout(hidden, 0.5, self.training), edge_index)


class PyGGAT(nn.Module):
    """GAT with eight heads of width 8, then one head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = GATConv(FEATURES, 8, heads=8, dropout=0.6)
        self.second = GATConv(64, CLASSES, dropout=0.6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits of every node."""
        hidden = F.elu(self.first(F.dropout(x, 0.6, self.training), edge_index))
        return self.second(F.dropout(hidden, 0.6, self.training), edge_index)


def step(model: nn.Module, rows: object, edge_index: Tensor, labels: Tensor) -> Callable[[], None]:
    """Return a function that does one forward and backward pass and a step of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def once() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(rows, edge_index), labels).backward()
        optimizer.step()

    return once


def main() -> None:
    """Run the sides in turns, print the table, optionally write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--out", help="write the table to this file too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    matrix = sp.random(NODES, FEATURES, 18 / FEATURES, format="csr", dtype=np.float32, random_state=0)
    one_way = torch.from_numpy(rng.integers(0, NODES, (2, EDGES)))
    edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
    labels = torch.from_numpy(rng.integers(0, CLASSES, NODES))
    dense, sparse = torch.from_numpy(matrix.toarray()), SparseRows(matrix)
    sides = {
        "GCN": (step(GCN(FEATURES, CLASSES), sparse, edge_index, labels), step(PyGGCN(), dense, edge_index, labels)),
        "GAT": (step(GAT(FEATURES, CLASSES), sparse, edge_index, labels), step(PyGGAT(), dense, edge_index, labels)),
    }
    lines = ["| model | this package, ms | PyTorch Geometric, ms | ratio |", "|---|---|---|---|"]
    for name, both in sides.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(options.repeats):
            for side, once in zip(times, both, strict=True):
                started = time.perf_counter()
                once()
                side.append(time.perf_counter() - started)
        ours, theirs = (1000 * statistics.median(side[3:]) for side in times)
        lines.append(f"| {name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.1f} |")
    text = "\n".join(lines)
    print(text)
    if options.out:
        command = (
            f"    python benchmarks/message_passing.py --repeats {options.repeats} --out results/message_passing.md"
        )
        page = f"# A training step of message passing\n\n{command}\n\nSettings as in the head of that file.\n\n{text}\n"
        Path(options.out).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

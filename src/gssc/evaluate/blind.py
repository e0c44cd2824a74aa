"""Graphs without test labels, for everything that chooses settings."""

from __future__ import annotations

from gssc.graph import Graph


def without_test_labels(graph: Graph) -> Graph:
    """Return the same graph with the labels of test nodes unknown: what is chosen on it cannot have seen them.

    >>> import numpy as np
    >>> graph = Graph(np.eye(3), [[0, 1], [1, 2]], labels=["a", "b", "b"], train=[0], val=[1], test=[2])
    >>> blind = without_test_labels(graph)
    >>> blind.labels.tolist(), blind.num_classes
    ([0, 1, -1], 2)
    """
    labels = graph.labels.copy()
    labels[graph.test] = graph.task.missing
    return graph.with_(labels=labels, class_names=graph.output_names)

"""The sparsifiers by name. A new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from gssc.errors import GsscError
from gssc.names import nearest
from gssc.sparsify.base import Sparsifier


class SparsifierEntry(NamedTuple):
    """Where a sparsifier lives, what it does in one line, and where it comes from."""

    module: str
    class_name: str
    summary: str
    paper: str

    def load(self) -> type[Sparsifier]:
        """Its class."""
        return getattr(import_module(f"gssc.sparsify.{self.module}"), self.class_name)


SPARSIFIERS = {
    "none": SparsifierEntry("base", "Sparsifier", "every edge, always", "-"),
    "drop_edge": SparsifierEntry(
        "drop_edge", "DropEdge", "random edges left out, afresh every epoch", "Rong et al. 2020, arXiv:1907.10903"
    ),
    "spectral": SparsifierEntry(
        "spectral",
        "SpectralSparsifier",
        "edges drawn by effective resistance, once",
        "Spielman and Srivastava 2011, arXiv:0803.0929; Sadhanala et al. 2016",
    ),
    "rank_degree": SparsifierEntry(
        "rank_degree", "RankDegree", "edges towards the best connected neighbours, once", "Voudigari et al. 2016"
    ),
    "ss_rd": SparsifierEntry(
        "ss_rd", "SpectralRankDegree", "spectral sparsifier and rank degree together, as the paper's SS/RD", "both"
    ),
    "lds": SparsifierEntry(
        "lds", "LDS", "one probability an edge, learned on held-out labels", "Franceschi et al. 2019, arXiv:1903.11960"
    ),
    "neural_sparse": SparsifierEntry(
        "neural_sparse", "NeuralSparse", "a net picks k neighbours of every node", "Zheng et al. 2020, PMLR v119"
    ),
    "gaug": SparsifierEntry(
        "gaug",
        "GAUG",
        "a learned edge predictor that also proposes new edges (GAUG-O)",
        "Zhao et al. 2021, arXiv:2006.06830",
    ),
    "evidence": SparsifierEntry(
        "evidence", "Evidence", "edges kept by how unlike random pairs they are, without labels", "this package"
    ),
    "str_sparse": SparsifierEntry(
        "str_sparse", "STRSparse", "a learned probability for every edge, from its two ends' features", "GSSC, Eq. 5-6"
    ),
}


def sparsifier_class(name: str) -> type[Sparsifier]:
    """The class of a sparsifier, or the nearest name."""
    if name not in SPARSIFIERS:
        raise GsscError(f"unknown sparsifier {name!r}; {nearest(name, SPARSIFIERS)}")
    return SPARSIFIERS[name].load()

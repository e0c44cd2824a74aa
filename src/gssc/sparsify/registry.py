"""Registry of the sparsifiers by name. A new sparsifier is one file and one entry here."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from gssc.errors import GsscError
from gssc.names import nearest
from gssc.settings import meanings
from gssc.sparsify.settings import (
    DropEdgeSettings,
    EvidenceSettings,
    GAUGSettings,
    LDSSettings,
    NeuralSparseSettings,
    RankDegreeSettings,
    SparsifierSettings,
    SpectralRankDegreeSettings,
    SpectralSparsifierSettings,
    STRSparseSettings,
)

if TYPE_CHECKING:
    from gssc.sparsify.base import Sparsifier


class SparsifierEntry(NamedTuple):
    """Module and class of a sparsifier, a one-line summary, its paper, and the dataclass of its settings."""

    module: str
    class_name: str
    summary: str
    paper: str
    settings: type[SparsifierSettings]

    def load(self) -> type[Sparsifier]:
        """Return the class of the sparsifier."""
        return getattr(import_module(f"gssc.sparsify.{self.module}"), self.class_name)


SPARSIFIERS = {
    "none": SparsifierEntry("base", "Sparsifier", "every edge, always", "-", SparsifierSettings),
    "drop_edge": SparsifierEntry(
        "drop_edge",
        "DropEdge",
        "random edges left out, redrawn every epoch",
        "Rong et al. 2020, arXiv:1907.10903",
        DropEdgeSettings,
    ),
    "spectral": SparsifierEntry(
        "spectral",
        "SpectralSparsifier",
        "edges drawn by effective resistance, once",
        "Spielman and Srivastava 2011, arXiv:0803.0929; Sadhanala et al. 2016",
        SpectralSparsifierSettings,
    ),
    "rank_degree": SparsifierEntry(
        "rank_degree",
        "RankDegree",
        "edges to the neighbours of highest degree, once",
        "Voudigari et al. 2016",
        RankDegreeSettings,
    ),
    "ss_rd": SparsifierEntry(
        "ss_rd",
        "SpectralRankDegree",
        "spectral sparsifier and rank degree together, as the paper's SS/RD",
        "both",
        SpectralRankDegreeSettings,
    ),
    "lds": SparsifierEntry(
        "lds",
        "LDS",
        "one probability per edge, learned on held-out labels",
        "Franceschi et al. 2019, arXiv:1903.11960",
        LDSSettings,
    ),
    "neural_sparse": SparsifierEntry(
        "neural_sparse",
        "NeuralSparse",
        "a network picks k neighbours of every node",
        "Zheng et al. 2020, PMLR v119",
        NeuralSparseSettings,
    ),
    "gaug": SparsifierEntry(
        "gaug",
        "GAUG",
        "a learned edge predictor that also proposes new edges (GAUG-O)",
        "Zhao et al. 2021, arXiv:2006.06830",
        GAUGSettings,
    ),
    "evidence": SparsifierEntry(
        "evidence",
        "Evidence",
        "edges kept by how unlike random pairs they are, without labels",
        "this package",
        EvidenceSettings,
    ),
    "str_sparse": SparsifierEntry(
        "str_sparse",
        "STRSparse",
        "a learned probability for every edge, from its two ends' features",
        "GSSC, Eq. 5-6",
        STRSparseSettings,
    ),
}


def sparsifier_class(name: str) -> type[Sparsifier]:
    """Return the class registered under ``name``. Raises GsscError with the closest match if there is none."""
    return _entry(name).load()


def sparsifier_settings(name: str) -> type[SparsifierSettings]:
    """Return the settings dataclass of a sparsifier."""
    return _entry(name).settings


def _entry(name: str) -> SparsifierEntry:
    if name not in SPARSIFIERS:
        raise GsscError(f"unknown sparsifier {name!r}; {nearest(name, SPARSIFIERS)}")
    return SPARSIFIERS[name]


def every_setting() -> Any:
    """Return the settings of all sparsifiers as one dataclass, for commands that accept several sparsifiers."""
    options: dict[str, tuple[str, Any, Any]] = {}
    texts: dict[str, str] = {}
    owners: dict[str, list[str]] = {}
    for sparsifier in ("str_sparse", *SPARSIFIERS):  # if texts or defaults differ, those of STR-Sparse are used
        kind = sparsifier_settings(sparsifier)
        hints, meaning = get_type_hints(kind), meanings(kind)
        for option in fields(kind):
            one = field(default=option.default, metadata=option.metadata)
            options.setdefault(option.name, (option.name, hints[option.name], one))
            texts.setdefault(option.name, meaning.get(option.name, ""))
            owners.setdefault(option.name, []).append(sparsifier)
    made = make_dataclass("EverySparsifier", list(options.values()))
    lines = [
        f"    {name}: ({', '.join(dict.fromkeys(owners[name]))}) {text}\n"
        for name, text in texts.items()
        if name != "name"
    ]
    not_used = "    name: not used in comparisons: give --sparsifiers instead.\n"
    made.__doc__ = "Settings of the sparsifiers.\n\nArgs:\n" + not_used + "".join(lines)
    return made


def relevant_settings(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return only those of the given settings that a sparsifier has."""
    known = {option.name for option in fields(sparsifier_settings(name))}
    return {key: value for key, value in given.items() if key in known}

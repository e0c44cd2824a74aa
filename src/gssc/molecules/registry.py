"""Registry of graph-level models by name. A new model is one file and one entry here."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from gssc.errors import GsscError
from gssc.names import nearest


class MoleculeModel(NamedTuple):
    """Module and training class of a model, a one-line summary, and its paper."""

    module: str
    training: str
    summary: str
    paper: str
    changes: tuple[tuple[str, Any], ...] = ()  # settings that differ from the class's defaults

    def settings(self, **changes: Any) -> Any:
        """Return new settings of this model."""
        return self._module().Settings(**{**dict(self.changes), **changes})

    def training_class(self) -> Any:
        """Return the class that trains it."""
        return getattr(self._module(), self.training)

    def _module(self) -> Any:
        return import_module(f"gssc.molecules.{self.module}")


MODELS = {
    "gssc": MoleculeModel(
        "models.gssc", "GSSCTraining", "the mean of gssc_atoms and gssc_environments, trained together", "this project"
    ),
    "gssc_atoms": MoleculeModel(
        "models.gssc",
        "GSSCTraining",
        "an MLP on single atoms, trained on pairs of bonded ones",
        "GSSC, Sec. III",
        (("members", 1), ("radius", 0)),
    ),
    "gssc_mean": MoleculeModel(
        "models.gssc",
        "GSSCTraining",
        "the same with the mean of atom embeddings alone, as in the paper",
        "GSSC, Sec. III",
        (("members", 1), ("radius", 0), ("pooling", "mean")),
    ),
    "gssc_environments": MoleculeModel(
        "models.gssc",
        "GSSCTraining",
        "the same with hashed environments of two bonds in each atom's row",
        "this project",
        (("members", 1), ("atoms_alone", 0)),
    ),
    "gssc_taught": MoleculeModel(
        "models.taught",
        "TaughtGSSCTraining",
        "gssc that also learns from the predictions of a forest",
        "this project",
    ),
    "gcn": MoleculeModel("models.gnn", "GCNTraining", "averages over bonds, three times", "arXiv:1609.02907"),
    "gin": MoleculeModel("models.gnn", "GINTraining", "sums over bonds with their fields", "arXiv:1810.00826"),
    "fingerprint_forest": MoleculeModel(
        "models.fingerprint_forest", "ForestTraining", "a random forest on Morgan counts", "Breiman 2001"
    ),
    "fingerprint_mlp": MoleculeModel(
        "models.fingerprint_mlp", "FingerprintMLPTraining", "an MLP on Morgan counts", "Rogers and Hahn 2010"
    ),
    "gpt_gnn": MoleculeModel(
        "pretrain.gpt_gnn", "GPTGNNTraining", "generates hidden atoms and removed bonds", "arXiv:2006.15437"
    ),
    "graph_cl": MoleculeModel(
        "pretrain.graph_cl", "GraphCLTraining", "matches two augmented views of a molecule", "arXiv:2010.13902"
    ),
    "graph_log": MoleculeModel(
        "pretrain.graph_log", "GraphLoGTraining", "matches views, and clusters of molecules", "arXiv:2106.04113"
    ),
    "g_motif": MoleculeModel("pretrain.g_motif", "GMotifTraining", "predicts functional groups", "arXiv:2007.02835"),
    "graph_mae": MoleculeModel(
        "pretrain.graph_mae", "GraphMAETraining", "rebuilds the fields of hidden atoms", "arXiv:2205.10803"
    ),
    "sim_grace": MoleculeModel(
        "pretrain.sim_grace", "SimGRACETraining", "matches itself under perturbed weights", "arXiv:2202.03104"
    ),
    "graph_mvp": MoleculeModel(
        "pretrain.graph_mvp", "GraphMVPTraining", "matches a molecule's graph and its conformer", "arXiv:2110.07728"
    ),
}


def molecule_model(name: str) -> MoleculeModel:
    """Return the entry of a model. Raises GsscError with the closest match if there is none."""
    if name not in MODELS:
        raise GsscError(f"{name!r} is not a model for molecules: {nearest(name, MODELS)}")
    return MODELS[name]

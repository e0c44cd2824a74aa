"""GraphMVP (Liu et al. 2022, arXiv:2110.07728): contrasts a molecule's graph with its conformer, and predicts it.

Conformers come from RDKit (ETKDG) for a part of the pool. The 3D encoder uses distances between all atoms of a molecule
through Gaussian filters, as in SchNet, in one small layer; it is discarded after pre-training.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.errors import GsscError
from gssc.extras import require
from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, matching_loss, projection
from gssc.molecules.smiles import chemistry, parse

CONFORMERS = 400  # maximum number of molecules of the pool with a conformer
FILTERS = 32  # Gaussian filters of distances
LONGEST = 10.0  # largest distance of a filter's centre, in Angstrom
MOST_ATOMS = 60  # larger molecules get no conformer


Settings = PretrainSettings


class GraphMVP(Pretext):
    """Contrasts graph and conformer, and predicts the embedding of each from that of the other."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.positions = conformers(pool, CONFORMERS)
        if not self.positions:
            raise GsscError("RDKit found no conformer for any molecule of the pool: pre-train on another one")
        self.shape = ConformerEncoder(encoder.width)
        self.heads = nn.ModuleList(projection(encoder.width) for _ in range(2))
        self.foresee = nn.ModuleList(projection(encoder.width) for _ in range(2))

    def usable(self, index: np.ndarray) -> np.ndarray:
        """Return the molecules that have a conformer."""
        return np.array([number for number in index if int(number) in self.positions], dtype=np.int64)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        flat = graph.mean_pool(self.encoder(graph))
        rows = self.encoder.atom_embedding(graph.atoms + self.encoder.offsets)
        places = torch.from_numpy(np.concatenate([self.positions[int(number)] for number in batch.index]))
        solid = graph.mean_pool(self.shape(rows, places, graph.owner))
        contrast = matching_loss(self.heads[0](flat), self.heads[1](solid))
        generate = F.mse_loss(self.foresee[0](flat), solid.detach()) + F.mse_loss(self.foresee[1](solid), flat.detach())
        return contrast + generate


class ConformerEncoder(nn.Module):
    """One continuous-filter convolution over all pairs of atoms of a molecule."""

    centres: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, LONGEST, FILTERS))
        self.filter = nn.Sequential(nn.Linear(FILTERS, width), nn.ReLU(), nn.Linear(width, width))
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, rows: Tensor, places: Tensor, owner: Tensor) -> Tensor:
        """Return atom embeddings [n, width] from rows [n, width] and coordinates [n, 3]."""
        source, target = torch.nonzero(owner.unsqueeze(0) == owner.unsqueeze(1), as_tuple=True)
        distance = (places[source] - places[target]).norm(dim=1, keepdim=True)
        weights = self.filter(torch.exp(-((distance - self.centres) ** 2) * (FILTERS / LONGEST)))
        mixed = torch.zeros_like(rows).index_add(0, source, rows[target] * weights)
        return rows + self.out(mixed / torch.bincount(owner)[owner].unsqueeze(1))


def conformers(molecules: MoleculeSet, count: int) -> dict[int, np.ndarray]:
    """Return coordinates [n, 3] of the atoms of up to ``count`` molecules, by their number in the set."""
    chem, embedding = chemistry(), require("rdkit.Chem.rdDistGeom", extra="molecules")
    settings = embedding.ETKDGv3()
    settings.randomSeed, settings.maxIterations = 7, 5
    found: dict[int, np.ndarray] = {}
    for number, text in enumerate(molecules.smiles):
        if len(found) == count:
            break
        molecule = parse(text)
        if molecule.GetNumAtoms() > MOST_ATOMS or embedding.EmbedMolecule(full := chem.AddHs(molecule), settings) < 0:
            continue
        found[number] = full.GetConformer().GetPositions()[: molecule.GetNumAtoms()].astype(np.float32)
    return found


class GraphMVPTraining(PretrainedTraining):
    """Fine-tunes an encoder that GraphMVP pre-trained."""

    pretext = GraphMVP

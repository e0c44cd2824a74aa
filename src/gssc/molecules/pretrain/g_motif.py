"""G-Motif (Rong et al. 2020, arXiv:2007.02835): predicts the functional groups of a molecule, from RDKit's list."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.extras import require
from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext
from gssc.molecules.smiles import parse

Settings = PretrainSettings


class GMotif(Pretext):
    """Predicts for each functional group whether it occurs in the molecule."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.present = functional_groups(pool)
        self.head = nn.Linear(encoder.width, self.present.shape[1])

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        truth = self.present[torch.from_numpy(batch.index)]
        return F.binary_cross_entropy_with_logits(self.head(graph.mean_pool(self.encoder(graph))), truth)


def functional_groups(molecules: MoleculeSet) -> Tensor:
    """Return whether each molecule has each of RDKit's 85 functional groups, [M, 85]."""
    fragments = require("rdkit.Chem.Fragments", extra="molecules")
    counters = [getattr(fragments, name) for name in sorted(dir(fragments)) if name.startswith("fr_")]
    parsed = [parse(text) for text in molecules.smiles]
    return torch.tensor([[float(counter(each) > 0) for counter in counters] for each in parsed])


class GMotifTraining(PretrainedTraining):
    """Fine-tunes an encoder that G-Motif pre-trained."""

    pretext = GMotif

"""GraphMAE (Hou et al. 2022, arXiv:2205.10803): reconstructs the fields of hidden atoms from their neighbourhood."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.extras import require
from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.fields import ATOM_OFFSETS, ATOM_WIDTH
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, random_mask

HIDDEN_SHARE = 0.25
GAMMA = 2.0  # power of the scaled cosine error


Settings = PretrainSettings


class GraphMAE(Pretext):
    """Hides a quarter of the atoms, hides their embeddings again, and decodes with one more GCN layer."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.bridge = torch.nn.Linear(encoder.width, encoder.width, bias=False)
        self.decoder = require("torch_geometric.nn", extra="molecules").GCNConv(encoder.width, ATOM_WIDTH)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        hidden = random_mask(len(graph.atoms), HIDDEN_SHARE, rng)
        rows = self.bridge(self.encoder(graph, hidden))
        rows = torch.where(hidden.unsqueeze(1), torch.zeros(()), rows)
        rebuilt = self.decoder(rows, graph.edges)[hidden]
        columns = graph.atoms[hidden] + torch.from_numpy(ATOM_OFFSETS[:-1])
        truth = torch.zeros(len(columns), ATOM_WIDTH).scatter_(1, columns, 1.0)
        return (1 - F.cosine_similarity(rebuilt, truth, dim=1)).pow(GAMMA).mean()


class GraphMAETraining(PretrainedTraining):
    """Fine-tunes an encoder that GraphMAE pre-trained."""

    pretext = GraphMAE

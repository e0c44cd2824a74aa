"""GPT-GNN (Hu et al. 2020, arXiv:2006.15437): generates hidden atoms and removed bonds."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.fields import ATOM_FIELDS
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, random_mask
from gssc.molecules.pretrain.views import without_bonds

HIDDEN_SHARE = 0.2
REMOVED_SHARE = 0.2


Settings = PretrainSettings


class GPTGNN(Pretext):
    """Two losses on one pass: the element of each hidden atom, and removed bonds against random pairs of atoms."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.element = nn.Linear(encoder.width, ATOM_FIELDS[0].width)
        self.ends = nn.Linear(encoder.width, encoder.width, bias=False)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        hidden = random_mask(len(graph.atoms), HIDDEN_SHARE, rng)
        bonds = graph.edges.shape[1] // 2
        removed = rng.random(bonds) < REMOVED_SHARE
        rows = self.encoder(without_bonds(graph, ~removed), hidden)
        loss: Tensor = F.cross_entropy(self.element(rows[hidden]), graph.atoms[hidden, 0])
        if not removed.any():
            return loss
        source, target = graph.edges[:, :bonds][:, torch.from_numpy(removed)]
        other = target[torch.from_numpy(rng.permutation(len(target)))]
        start = self.ends(rows[source])
        scores = torch.stack([(start * rows[target]).sum(1), (start * rows[other]).sum(1)]) / rows.shape[1] ** 0.5
        truth = torch.stack([torch.ones(len(source)), torch.zeros(len(source))])
        return loss + F.binary_cross_entropy_with_logits(scores, truth)


class GPTGNNTraining(PretrainedTraining):
    """Fine-tunes an encoder that GPT-GNN pre-trained."""

    pretext = GPTGNN

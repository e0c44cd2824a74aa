"""GraphLoG (Xu et al. 2021, arXiv:2106.04113): matches two views, with hierarchical clusters of molecules."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, matching_loss, projection, random_mask

PROTOTYPES = (32, 8)  # number of prototypes at the lower and at the upper level
HIDDEN_SHARE = 0.2
TEMPERATURE = 0.2


Settings = PretrainSettings


class GraphLoG(Pretext):
    """Matches graphs and atoms of two masked views, then pulls each graph to its prototype at two levels.

    The prototypes are parameters, so the M step is a gradient step instead of online expectation maximisation; the E
    step assigns each molecule to the nearest lower prototype and that one to the nearest upper prototype.
    """

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.head = projection(encoder.width)
        self.levels = nn.ParameterList(nn.Parameter(torch.randn(count, encoder.width)) for count in PROTOTYPES)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        views = [self.encoder(graph, random_mask(len(graph.atoms), HIDDEN_SHARE, rng)) for _ in range(2)]
        pooled = [self.head(graph.mean_pool(rows)) for rows in views]
        chosen = torch.from_numpy(rng.permutation(len(graph.atoms))[:256])
        local = matching_loss(*pooled) + matching_loss(views[0][chosen], views[1][chosen])
        return local + self._hierarchy(pooled[0])

    def _hierarchy(self, rows: Tensor) -> Tensor:
        total = rows.new_zeros(())
        for prototypes in self.levels:
            scores = F.normalize(rows, dim=1) @ F.normalize(prototypes, dim=1).T / TEMPERATURE
            nearest = scores.detach().argmax(1)
            total = total + F.cross_entropy(scores, nearest)
            rows = prototypes[nearest]
        return total


class GraphLoGTraining(PretrainedTraining):
    """Fine-tunes an encoder that GraphLoG pre-trained."""

    pretext = GraphLoG

"""SimGRACE (Xia et al. 2022, arXiv:2202.03104): contrasts the encoder with a perturbed copy of itself."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, matching_loss, projection

NOISE = 0.1  # standard deviation of the perturbation, relative to that of each weight tensor


Settings = PretrainSettings


class SimGRACE(Pretext):
    """Contrasts the encoder with a copy that has Gaussian noise on its weights; molecules are not augmented."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.head = projection(encoder.width)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        perturbed = copy.deepcopy(self.encoder)
        with torch.no_grad():
            for weight in perturbed.parameters():
                if weight.numel() > 1:
                    weight.add_(NOISE * weight.std() * torch.randn_like(weight))
            other = graph.mean_pool(perturbed(graph))
        return matching_loss(self.head(graph.mean_pool(self.encoder(graph))), self.head(other))


class SimGRACETraining(PretrainedTraining):
    """Fine-tunes an encoder that SimGRACE pre-trained."""

    pretext = SimGRACE

"""GraphCL (You et al. 2020, arXiv:2010.13902): contrasts two augmented views of a molecule."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.finetune import PretrainedTraining, PretrainSettings
from gssc.molecules.pretrain.pretext import Pretext, matching_loss, projection
from gssc.molecules.pretrain.views import random_view

Settings = PretrainSettings


class GraphCL(Pretext):
    """Contrasts two random augmentations, each with a fifth of the atoms or bonds changed."""

    def __init__(self, encoder: GraphEncoder, pool: MoleculeSet):
        super().__init__(encoder, pool)
        self.head = projection(encoder.width)

    def loss(self, batch: MoleculeBatch, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        return matching_loss(self._view(graph, rng), self._view(graph, rng))

    def _view(self, graph: GraphTensors, rng: np.random.Generator) -> Tensor:
        view, hidden = random_view(graph, 0.2, rng)
        out: Tensor = self.head(view.mean_pool(self.encoder(view, hidden)))
        return out


class GraphCLTraining(PretrainedTraining):
    """Fine-tunes an encoder that GraphCL pre-trained."""

    pretext = GraphCL

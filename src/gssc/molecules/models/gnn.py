"""Supervised GCN (Kipf and Welling 2017) and GIN (Xu et al. 2019; GINEConv of Hu et al. 2020) with mean pooling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from torch import Tensor, nn

from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.training import MoleculeTraining, Schedule
from gssc.settings import setting


@dataclass
class Settings:
    """Settings of a graph neural network and its schedule.

    Args:
        width: width of every layer of the encoder.
        layers: number of layers of the encoder.
        dropout: share of hidden units dropped in training.
        train: The schedule.
    """

    width: int = setting(128, low=1, high=2**20)
    layers: int = setting(3, low=1, high=1000)
    dropout: float = setting(0.2, low=0, high=0.99)
    train: Schedule = field(default_factory=Schedule)


class GraphClassifier(nn.Module):
    """An encoder, mean pooling and a linear head."""

    def __init__(self, encoder: GraphEncoder, outputs: int):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, outputs)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Return the logits of each molecule, [B, T]."""
        return cast(Tensor, self.head(graph.mean_pool(self.encoder(graph))))


class GCNTraining(MoleculeTraining):
    """Trains a GCN on the labels of the training molecules."""

    kind = "gcn"

    def build(self) -> None:
        settings = self.config
        encoder = GraphEncoder(self.kind, settings.width, settings.layers, settings.dropout)
        self.model = GraphClassifier(encoder, self.molecules.num_targets)

    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        return cast(Tensor, model(GraphTensors.of(self.molecules, batch)))


class GINTraining(GCNTraining):
    """Trains a GIN, whose layers also use bond fields."""

    kind = "gin"

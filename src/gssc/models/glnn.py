"""GLNN (Zhang et al., 2022, https://arxiv.org/abs/2110.08727): an MLP distilled from a graph neural network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.features import RowLinear, Rows, rows_of
from gssc.models.base import NodeModel, Recipe, TrainingGraph, folded
from gssc.settings import Count, Dropout, Share


class GLNN(NodeModel):
    r"""An MLP distilled from a message-passing teacher, which :mod:`gssc.train.distill` trains first.

    The loss is

    .. math:: \lambda \, CE(\mathrm{labels}) + (1 - \lambda) \, KL(\mathrm{teacher} \,\|\, \mathrm{student})

    over labelled nodes and over all nodes visible in training. https://arxiv.org/abs/2110.08727. Edges affect it
    through the teacher only, so a sparsifier acts on the teacher.

    Args:
        inputs: number of features.
        outputs: number of classes.
        hidden: width of every hidden layer.
        layers: number of hidden layers.
        dropout: share of hidden units dropped in training.
        norm: ``none`` or ``batch``, after every hidden layer.
        label_weight: lambda; the paper's tables use 0.
        batch_size: nodes per step.
    """

    passes_messages = False
    # The paper's settings for Cora and CiteSeer, except for weight decay and normalisation, which were chosen by
    # validation accuracy: the paper's were tuned for another teacher and other splits.
    recipe = Recipe(epochs=200, patience=50, lr=0.01, weight_decay=5e-4)
    recipes: ClassVar[dict[str, Recipe]] = {
        "citeseer": Recipe(
            model={"dropout": 0.1}, epochs=200, patience=50, lr=0.01, weight_decay=1e-3, normalize="none"
        ),
        "ogbn-arxiv": Recipe(
            model={"hidden": 1024, "layers": 2, "dropout": 0.5, "norm": "batch"},
            epochs=200,
            patience=50,
            lr=0.01,
            weight_decay=0.0,
            normalize="none",
        ),
    }

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: Count = 128,
        layers: Count = 1,
        dropout: Dropout = 0.6,
        norm: Literal["none", "batch"] = "none",
        label_weight: Share = 0.0,
        batch_size: Count = 512,
    ):
        super().__init__()
        self.first = RowLinear(inputs, hidden)
        self.rest = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(layers - 1)])
        self.norms = nn.ModuleList(
            [nn.BatchNorm1d(hidden) if norm == "batch" else nn.Identity() for _ in range(layers)]
        )
        self.last = nn.Linear(hidden, outputs)
        self.dropout, self.label_weight, self.batch_size = dropout, label_weight, batch_size
        self.soft_labels: Tensor | None = None

    def learn_from(self, logits: Tensor) -> None:
        """Set the teacher's logits of every training-graph node, [N, C], as soft labels."""
        self.soft_labels = logits.softmax(1)

    def forward(self, rows: Rows, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits of the rows; edges are not used."""
        hidden = self.first(rows)
        for norm, layer in zip(self.norms, [*self.rest, self.last], strict=True):
            hidden = layer(F.dropout(F.relu(norm(hidden)), self.dropout, self.training))
        return hidden

    def losses(self, graph: TrainingGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield one loss per batch of nodes; if labels have weight, every batch includes all labelled nodes."""
        assert self.soft_labels is not None, "learn_from comes first"
        order = rng.permutation(len(graph.labels))
        labelled = rows_of(graph.rows, graph.train.numpy()) if self.label_weight else None
        for nodes in np.array_split(order, -(-len(order) // self.batch_size)):
            target = self.soft_labels[torch.from_numpy(nodes)]
            answers = self(rows_of(graph.rows, nodes)).log_softmax(1)
            loss = (1 - self.label_weight) * F.kl_div(answers, target, reduction="batchmean")
            if labelled is not None:
                loss = loss + self.label_weight * F.cross_entropy(self(labelled), graph.labels[graph.train])
            yield loss

    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return its linear maps, each with the batch norm that follows it folded in."""
        maps = [(self.first.weight.T, self.first.bias)]
        maps += [(layer.weight, layer.bias) for layer in (*self.rest, self.last)]
        return [folded(*pair, norm) for pair, norm in zip(maps, [*self.norms, None], strict=True)]

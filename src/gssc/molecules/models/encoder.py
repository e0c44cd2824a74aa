"""The message-passing encoder of the rivals: GCN or GIN layers of PyTorch Geometric over embedded atom fields."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gssc.extras import require
from gssc.models.dropout import drop
from gssc.molecules.batches import MoleculeBatch
from gssc.molecules.fields import ATOM_OFFSETS, ATOM_WIDTH, BOND_WIDTHS
from gssc.molecules.molecule_set import MoleculeSet


class GraphTensors:
    """Atom codes [n, 9], bonds in both directions [2, 2b], their codes [2b, 3], and each atom's molecule [n]."""

    def __init__(self, atoms: Tensor, edges: Tensor, bond_fields: Tensor, owner: Tensor, count: int):
        self.atoms, self.edges, self.bond_fields, self.owner, self.count = atoms, edges, bond_fields, owner, count

    @classmethod
    def of(cls, molecules: MoleculeSet, batch: MoleculeBatch) -> GraphTensors:
        """Return the tensors of a batch."""
        atoms = torch.from_numpy(molecules.atoms[batch.atoms].astype("int64"))
        codes = torch.from_numpy(molecules.bond_fields[batch.bond_index].astype("int64"))
        edges = torch.cat([batch.bonds, batch.bonds.flip(0)], dim=1)
        return cls(atoms, edges, codes.repeat(2, 1), batch.owner, len(batch))

    @cached_property
    def adjacency(self) -> Tensor:
        """The symmetrically normalised adjacency matrix of a GCN, with self-loops, [n, n] in CSR format.

        With it, an epoch of a GCN takes four fifths of the time of one with a list of edges.
        """
        normalize = require("torch_geometric.nn.conv.gcn_conv", extra="molecules").gcn_norm
        count = len(self.atoms)
        edges, weights = normalize(self.edges, None, count)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            listed = torch.sparse_coo_tensor(edges, weights, (count, count), check_invariants=False)
            return listed.to_sparse_csr()

    def mean_pool(self, values: Tensor) -> Tensor:
        """Return the mean over each molecule's atoms; zero for a molecule that has none left."""
        total = values.new_zeros(self.count, values.shape[1]).index_add(0, self.owner, values)
        sizes = torch.bincount(self.owner, minlength=self.count).clamp(min=1)
        return total / sizes.unsqueeze(1)


class GraphEncoder(nn.Module):
    """Embeds every atom from its own fields and its neighbourhood.

    Args:
        kind: ``gcn`` (GCNConv, bonds unweighted) or ``gin`` (GINEConv, bond fields added to messages).
        width: width of every layer.
        layers: number of convolutions.
        dropout: dropout rate after each of them, in steps of 1/256.
    """

    def __init__(self, kind: str = "gcn", width: int = 128, layers: int = 3, dropout: float = 0.1):
        super().__init__()
        convolutions = require("torch_geometric.nn", extra="molecules")
        self.kind, self.width, self.dropout = kind, width, dropout
        self.offsets: Tensor
        self.register_buffer("offsets", torch.from_numpy(ATOM_OFFSETS[:-1].copy()), persistent=False)
        self.atom_embedding = nn.EmbeddingBag(ATOM_WIDTH, width, mode="sum")
        self.mask_row = nn.Parameter(torch.zeros(width))  # replaces the row of a hidden atom
        if kind == "gin":
            self.bond_embeddings = nn.ModuleList(nn.Embedding(size, width) for size in BOND_WIDTHS)
        self.convolutions = nn.ModuleList(self._convolution(convolutions, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))

    def _convolution(self, convolutions: Any, width: int) -> nn.Module:
        if self.kind == "gin":
            inner = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            return convolutions.GINEConv(inner, train_eps=True)
        return convolutions.GCNConv(width, width, normalize=False)  # GraphTensors.adjacency is normalised

    def forward(self, graph: GraphTensors, hidden: Tensor | None = None) -> Tensor:
        """Return atom embeddings [n, width]; the fields of atoms marked in ``hidden`` [n] are masked."""
        rows = self.atom_embedding(graph.atoms + self.offsets)
        if hidden is not None:
            rows = torch.where(hidden.unsqueeze(1), self.mask_row, rows)
        bonds = self._bond_rows(graph.bond_fields) if self.kind == "gin" else None
        last = len(self.convolutions) - 1
        for place, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            moved = convolution(rows, graph.adjacency) if bonds is None else convolution(rows, graph.edges, bonds)
            rows = norm(moved)
            rows = drop(rows if place == last else F.relu(rows), self.dropout, self.training)
        return rows

    def _bond_rows(self, codes: Tensor) -> Tensor:
        parts = [embedding(code) for embedding, code in zip(self.bond_embeddings, codes.T, strict=True)]
        return torch.stack(parts).sum(0)

"""GSSC on molecules: the MLP takes single atoms; bonds only define training pairs (the loss after Eq. 13).

    L = L_smooth(bonds that STR-Sparse keeps) + L_graph(mean of the atoms' embeddings, the molecule's targets)

Atoms have no labels, so head f outputs an embedding of K numbers instead of class scores. Its largest entry is the
atom's pseudo-label: the K entries are soft clusters, pulled together along bonds and pushed apart by negatives. The
homophily objective of STR-Sparse (Eq. 16) counts the kept bonds whose two ends are in the same cluster.

Two networks are trained together by default: one gets single atoms, as in the paper, and one gets hashed circular
environments in each atom's row as well. They make different errors, and their mean is better than either alone.

The keep probability of a bond depends only on its two atom rows, so it is computed once per pair of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import SparseRows
from gssc.models.norm_activation import NORM_MOMENTUM
from gssc.models.settings import STRContrastSettings
from gssc.models.str_contrast import STRContrast
from gssc.molecules.atom_rows import AtomRows, RowFormat, drop_environments
from gssc.molecules.batches import MoleculeBatch, collate
from gssc.molecules.deployed import DeployedMolecules, Layers
from gssc.molecules.fields import ATOM_WIDTH
from gssc.molecules.training import MoleculeStep, MoleculeTraining, Schedule
from gssc.settings import setting
from gssc.sparsify.relaxed import sample_edges
from gssc.sparsify.settings import STRSparseSettings
from gssc.sparsify.str_sparse import STRSparse
from gssc.tasks import Classes
from gssc.train.batches import EdgeBatch
from gssc.train.checkpoint import State
from gssc.train.losses import homophily_ratio, pair_smoothness
from gssc.train.optimize import descend

MOLECULES_FOR_NORMS = 2048  # maximum number of molecules for the statistics of batch norms


@dataclass
class Settings:
    """Settings of GSSC at graph level.

    Args:
        hidden: width of every hidden layer of the MLP on atoms.
        layers: number of its hidden layers.
        dropout: share of its hidden units dropped in training.
        embedding: width of the atom embedding of head f; the molecule's embedding is the mean over its atoms.
        readout: ``linear`` (as in the paper) or ``mlp``, which adds a hidden layer.
        use_size: whether the readout gets the logarithm of the number of atoms, which a mean does not contain.
        pooling: ``mean`` of the atoms' embeddings (as in the paper), or ``mean_and_sum``, which reflects their number.
        members: number of separate networks trained on the same batches; the prediction is the mean of their logits.
        atoms_alone: number of members that get the fields of single atoms only, as in the paper.
        radius: the other members also get hashed circular environments of the atoms up to this radius; 0 for none.
        columns: hashed columns per radius.
        environment_dropout: share of an atom's environments hidden in training if targets are binary; none are hidden
            if they are measured.
        smoothness_weight: weight of L_smooth relative to L_graph.
        negative_weight: weight of the negative term within L_smooth.
        pairs: bonds per batch in L_smooth, drawn anew for each batch.
        sparsify: whether to learn which bonds to train on; false keeps every bond (the ablation).
        warmup: epochs on all bonds before the sparsifier starts.
        alpha: share of the observed bond in M = (1 - alpha) lambda + alpha A (Eq. 5).
        temperature: temperature tau of the relaxed sample (Eq. 6).
        sparsifier_lr: learning rate of the sparsifier.
        train: The schedule.
    """

    hidden: int = setting(128, low=1, high=2**20)
    layers: int = setting(2, low=1, high=1000)
    dropout: float = setting(0.2, low=0, high=0.99)
    embedding: int = setting(64, low=1, high=2**20)
    readout: Literal["linear", "mlp"] = "mlp"
    use_size: bool = True
    pooling: Literal["mean", "mean_and_sum"] = "mean_and_sum"
    members: int = setting(2, low=1, high=100)
    atoms_alone: int = setting(1, low=0, high=100)
    radius: int = setting(2, low=0, high=10)
    columns: int = setting(1024, low=1, high=2**20)
    environment_dropout: float = setting(0.7, low=0, high=0.99)
    smoothness_weight: float = setting(0.1, low=0)
    negative_weight: float = setting(1.0, low=0)
    pairs: int = setting(64, low=1)
    sparsify: bool = True
    warmup: int = setting(5, low=0)
    alpha: float = setting(0.3, low=0, high=1)
    temperature: float = setting(0.5, low=1e-6)
    sparsifier_lr: float = setting(0.01, low=0)
    train: Schedule = field(default_factory=Schedule)


class Readout(nn.Module):
    """Maps a molecule's embedding to targets: a linear map, or batch norm, a hidden layer and dropout before it."""

    def __init__(self, inputs: int, outputs: int, settings: Settings):
        super().__init__()
        self.linear = settings.readout == "linear"
        width = inputs if self.linear else settings.hidden
        if not self.linear:
            self.norm = nn.BatchNorm1d(inputs, momentum=NORM_MOMENTUM)
            self.hidden = nn.Linear(inputs, width)
            self.dropout = nn.Dropout(settings.dropout)
        self.last = nn.Linear(width, outputs)

    def forward(self, pooled: Tensor) -> Tensor:
        """Return logits [B, T] from embeddings [B, inputs]."""
        if not self.linear:
            pooled = self.dropout(torch.relu(self.hidden(self.norm(pooled))))
        return cast(Tensor, self.last(pooled))

    @torch.no_grad()
    def folded_layers(self) -> Layers:
        """Return (weight, bias) pairs, the batch norm folded into the first."""
        last = [(self.last.weight.numpy().copy(), self.last.bias.numpy().copy())]
        if self.linear:
            return last
        statistics = self.norm.state_dict()
        factor = self.norm.weight / (statistics["running_var"] + self.norm.eps).sqrt()
        offset = self.norm.bias - factor * statistics["running_mean"]
        weight, bias = self.hidden.weight * factor, self.hidden.bias + self.hidden.weight @ offset
        return [(weight.numpy(), bias.numpy()), *last]


class AtomClassifier(nn.Module):
    """The MLP on atoms and the readout on the mean, or the mean and the sum, of their embeddings."""

    def __init__(self, inputs: int, outputs: int, settings: Settings, rng: np.random.Generator):
        super().__init__()
        config = STRContrastSettings(hidden=settings.hidden, layers=settings.layers, dropout=settings.dropout)
        self.inputs = inputs
        self.atoms = STRContrast(inputs, settings.embedding, config, rng)
        self.use_size, self.use_sum = settings.use_size, settings.pooling == "mean_and_sum"
        self.readout = Readout(settings.embedding * (1 + self.use_sum) + settings.use_size, outputs, settings)

    def embed(self, rows: SparseRows) -> Tensor:
        """Return the embeddings of atom rows, [n, K]."""
        return cast(Tensor, self.atoms(self.own_columns(rows)))

    def own_columns(self, rows: SparseRows) -> SparseRows:
        """Return the leading columns of atom rows, as many as this network has inputs."""
        return SparseRows(rows.matrix[:, : self.inputs]) if self.inputs < rows.shape[1] else rows

    def logits(self, atom_embeddings: Tensor, batch: MoleculeBatch) -> Tensor:
        """Return the logits of molecules from the embeddings of their atoms [n, K]."""
        mean, sizes = batch.mean_pool(atom_embeddings), batch.sizes.unsqueeze(1)
        parts = [mean, *([mean * sizes] if self.use_sum else []), *([sizes.log()] if self.use_size else [])]
        return cast(Tensor, self.readout(torch.cat(parts, dim=1)))

    def atom_layers(self, columns: int) -> Layers:
        """Return (weight, bias) pairs of the MLP on atom rows; columns that it does not use have weights of zero."""
        (weight, bias), *rest = self.atoms.folded_layers()
        return [(np.pad(weight, ((0, 0), (0, columns - self.inputs))), bias), *rest]


class Committee(nn.Module):
    """Several :class:`AtomClassifier` with separate weights; the first ones get the fields of single atoms only."""

    def __init__(self, inputs: int, outputs: int, settings: Settings, rng: np.random.Generator):
        super().__init__()
        widths = [ATOM_WIDTH if number < settings.atoms_alone else inputs for number in range(settings.members)]
        self.members = nn.ModuleList(AtomClassifier(width, outputs, settings, rng) for width in widths)

    def __iter__(self) -> Iterator[AtomClassifier]:
        return iter(cast(list[AtomClassifier], self.members))

    def logits(self, rows: SparseRows, place: Tensor, batch: MoleculeBatch) -> Tensor:
        """Return the logits by each member, [members, B, T], from atom rows and the row of each atom of the batch."""
        return torch.stack([each.logits(each.embed(rows).index_select(0, place), batch) for each in self])


class GSSCTraining(MoleculeTraining):
    """Trains a :class:`Committee`; prediction uses atom rows only."""

    model: Committee

    def build(self) -> None:
        settings, molecules = self.config, self.molecules
        self.rows = AtomRows(molecules, RowFormat(settings.radius, settings.columns))
        self.model = Committee(self.rows.matrix.shape[1], molecules.num_targets, settings, self.rng)
        bonds = np.sort(self.rows.of_atom[molecules.bonds], axis=0)  # the two rows that each bond joins
        train_bonds = self._bonds_of(molecules.train)
        count = self.rows.matrix.shape[0]
        key, self.pair_of_bond = np.unique(bonds[0] * count + bonds[1], return_inverse=True)
        self.row_pairs = torch.from_numpy(np.stack([key // count, key % count]))
        self.train_pairs = torch.from_numpy(self.pair_of_bond[train_bonds])  # the pair of each training bond
        config = STRSparseSettings(alpha=settings.alpha, temperature=settings.temperature, score="mean", hidden=64)
        self.sparsifier = STRSparse(SparseRows(self.rows.matrix), self.row_pairs, config, self.rng)
        self.sparsifier_optimizer = torch.optim.Adam(self.sparsifier.parameters(), lr=settings.sparsifier_lr)
        self.keep = KeepProbability(len(key))
        self.clusters = Classes(settings.embedding)  # the entries of an atom's embedding are soft clusters

    def _bonds_of(self, index: np.ndarray) -> np.ndarray:
        """Return the numbers of the bonds of these molecules."""
        mask = np.zeros(len(self.molecules), dtype=bool)
        mask[index] = True
        return np.flatnonzero(np.repeat(mask, np.diff(self.molecules.bond_starts)))

    def logits(self, model: nn.Module, batch: MoleculeBatch) -> Tensor:
        return self.member_logits(cast(Committee, model), batch).mean(0)

    def member_logits(self, model: Committee, batch: MoleculeBatch) -> Tensor:
        """Return the logits of a batch by each member, [members, B, T].

        Each different atom row is computed once; in training every atom is computed separately, with its own dropout,
        so that batch statistics reflect the frequency of atoms.
        """
        rows = self.rows.of_atom[batch.atoms]
        present, place = (rows, np.arange(len(rows))) if model.training else np.unique(rows, return_inverse=True)
        matrix = self.rows.matrix[present]
        if model.training and not self.objective.regression:
            drop_environments(matrix, self.config.radius, self.config.environment_dropout, self.rng)
        return model.logits(SparseRows(matrix), torch.from_numpy(place.ravel()), batch)

    def batch_loss(self, batch: MoleculeBatch) -> Tensor:
        wanted = self.wanted[torch.from_numpy(batch.index)]
        members = self.member_logits(self.model, batch)
        loss = torch.stack([self.objective.loss(logits, wanted) for logits in members]).sum()
        if self.config.smoothness_weight > 0 and (pairs := self.drawn_pairs(batch)) is not None:
            loss = loss + self.config.smoothness_weight * self.smoothness(pairs)
        return loss

    def drawn_pairs(self, batch: MoleculeBatch) -> EdgeBatch | None:
        """Return a sample of the bonds of a batch, as drawn by STR-Sparse, as a batch of training pairs."""
        kept = self.rng.random(len(batch.bond_index)) < self.keep.probability[self.pair_of_bond[batch.bond_index]]
        chosen = self.rng.permutation(np.flatnonzero(kept))[: self.config.pairs]
        if len(chosen) < 2:
            return None
        ends = self.rows.of_atom[batch.atoms][batch.bonds.numpy()[:, chosen]]
        ends = np.where(self.rng.random(len(chosen)) < 0.5, ends, ends[::-1])
        present, place = np.unique(ends, return_inverse=True)
        source, target = torch.from_numpy(place.reshape(2, -1))
        return EdgeBatch(
            nodes=present,
            rows=SparseRows(self.rows.matrix[present]),
            source=source,
            target=target,
            negative=None,
            negatives_in_batch=True,
            labels=torch.empty(0),
            index=chosen,
        )

    def smoothness(self, pairs: EdgeBatch) -> Tensor:
        """Return L_smooth of Eq. 9 to 11 on atom embeddings, summed over members."""
        total = torch.zeros(())
        for member in self.model:
            out = member.atoms.compare(replace(pairs, rows=member.own_columns(cast(SparseRows, pairs.rows))))
            each = pair_smoothness(self.clusters, out.endpoints, out.mixed, out.negatives, self.config.negative_weight)
            total = total + each.mean()
        return total

    @torch.no_grad()
    def settle_norms(self) -> None:
        """Set the statistics of the averaged model's batch norms to those of training molecules in prediction.

        The running statistics come from atoms with dropout and hidden environments, and from the ends of bonds, where
        an atom with three bonds counts three times. Their bias adds up in a sum over atoms.
        """
        model = cast(Committee, self.averaged.model)
        count = min(len(self.train_index), MOLECULES_FOR_NORMS)
        batch = collate(self.molecules, self.rng.choice(self.train_index, count, replace=False))
        before = {name: value.clone() for name, value in model.named_buffers() if "running" in name}
        was_training = model.training
        model.train()
        with without_dropout(model):
            place = torch.arange(len(batch.atoms))
            model.logits(SparseRows(self.rows.matrix[self.rows.of_atom[batch.atoms]]), place, batch)
        model.train(was_training)
        for name, value in model.named_buffers():
            if name in before:  # undo the running average: what is left is the statistic of the batch
                value.copy_(before[name] + (value - before[name]) / NORM_MOMENTUM)

    @torch.no_grad()
    def agreement(self) -> Tensor:
        """Return the share of members that give both rows of a pair the same pseudo-label, [row pairs].

        The pseudo-label is the largest entry of a row's embedding.
        """
        model = cast(Committee, self.averaged.model)
        was_training = model.training
        model.eval()
        rows, (first, second) = SparseRows(self.rows.matrix), self.row_pairs
        labels = [member.embed(rows).argmax(1) for member in model]
        model.train(was_training)
        return torch.stack([(label[first] == label[second]).float() for label in labels]).mean(0)

    def end_of_pass(self, step: MoleculeStep) -> None:
        """Take one step of STR-Sparse on the homophily of a sample of the training bonds (Eq. 16 and 18)."""
        if self.objective.regression:  # binary targets are ranked, which it does not improve
            self.settle_norms()
        agree = self.agreement()[self.train_pairs]
        step.phase = "warm-up"
        kept = torch.ones(len(self.train_pairs))
        if self.config.sparsify and self.epoch >= self.config.warmup and len(self.train_pairs):
            step.phase = "alternate"
            probability = self.sparsifier.keep_probability()
            weights = sample_edges(probability[self.train_pairs], self.config.temperature, "logistic", self.rng)
            loss = homophily_ratio(weights, agree)
            if loss.requires_grad:
                descend(loss, self.sparsifier_optimizer)
            kept = weights.detach()
            self.keep.probability = self.sparsifier.keep_probability().detach().numpy()
        step.notes["edges_kept"] = int(kept.sum())
        step.notes["pseudo_homophily"] = float((kept * agree).sum() / kept.sum().clamp(min=1))

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all bonds of the set [2, E] and the keep probability of each."""
        return self.molecules.bonds, self.keep.probability[self.pair_of_bond]

    @torch.no_grad()
    def deployed_molecules(self) -> DeployedMolecules:
        """Return the model of the kept epoch as plain arrays, batch norms folded in."""
        model, objective = cast(Committee, self.averaged.model), self.objective
        scaled = (objective.mean, objective.scale) if objective.regression else (None, None)
        return DeployedMolecules(
            [(member.atom_layers(self.rows.matrix.shape[1]), member.readout.folded_layers()) for member in model],
            self.molecules.target_names,
            RowFormat(self.config.radius, self.config.columns),
            self.config.use_size,
            self.config.pooling == "mean_and_sum",
            *scaled,
        )

    def components(self) -> dict[str, Any]:
        """Return the parts that have a state."""
        own = {"sparsifier": self.sparsifier, "sparsifier_optimizer": self.sparsifier_optimizer, "keep": self.keep}
        return {**super().components(), **own}


@contextmanager
def without_dropout(model: Committee) -> Iterator[None]:
    """Switch off the dropout of every member within the context."""
    rates = [member.atoms.config.dropout for member in model]
    dropouts = [layer for layer in model.modules() if isinstance(layer, nn.Dropout)]
    for member in model:
        member.atoms.config.dropout = 0.0
    for layer in dropouts:
        layer.eval()
    try:
        yield
    finally:
        for member, rate in zip(model, rates, strict=True):
            member.atoms.config.dropout = rate
        for layer in dropouts:
            layer.train()


class KeepProbability:
    """The keep probability of each pair of atom rows as of the last epoch; all ones before the sparsifier starts."""

    def __init__(self, pairs: int):
        self.probability = np.ones(pairs, dtype=np.float32)

    def state_dict(self) -> State:
        """Return the probabilities."""
        return {"probability": torch.from_numpy(self.probability.copy())}

    def load_state_dict(self, state: State) -> None:
        """Restore a state of :meth:`state_dict`."""
        self.probability = state["probability"].numpy().copy()

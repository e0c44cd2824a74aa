"""STR-Contrast: the MLP that learns from pairs and predicts from a feature row alone (Eq. 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows
from gssc.models.mixing import gather_and_mix, in_single, mix_ends, windows
from gssc.models.norm_activation import NormActivation
from gssc.models.settings import STRContrastSettings

if TYPE_CHECKING:
    from gssc.train.batches import EdgeBatch


@dataclass
class PairLogits:
    """Logits that the losses need, for a batch of B pairs with C classes."""

    endpoints: Tensor  # y of source and target, [2, B, C]
    mixed: Tensor  # z of the points i->j and j->i, [2, B, C]
    negatives: Tensor | None  # z of one non-neighbour per pair, [B, C]

    def some_ends(self, count: int) -> Tensor:
        """Return y of both ends of the first ``count`` pairs, [2, count, C]."""
        return self.endpoints[:, :count]

    def float(self) -> PairLogits:
        """Return the logits in single precision."""
        return PairLogits(
            self.endpoints.float(), self.mixed.float(), None if self.negatives is None else self.negatives.float()
        )


@dataclass
class RowLogits:
    """Outputs of the rows of a batch, and the pairs that the rows belong to.

    Attributes:
        y, z: outputs of both heads, [U, C].
        beta: mixing weights of both directions, [2, B].
        ends: rows of both ends, [2, B].
        negative: row of one non-neighbour per pair, [B]; None without negatives.
    """

    y: Tensor
    z: Tensor
    beta: Tensor
    ends: Tensor
    negative: Tensor | None

    def some_ends(self, count: int) -> Tensor:
        """Return y of both ends of the first ``count`` pairs, [2, count, C]."""
        return self.y[self.ends[:, :count]]

    def pairs(self) -> PairLogits:
        """Return the logits of pairs, with ends mixed (Eq. 8)."""
        z = in_single(self.z)
        mixed = mix_ends(z[self.ends], self.beta)
        return PairLogits(self.y[self.ends], mixed, None if self.negative is None else z[self.negative])


class MixNet(nn.Module):
    """The net of the released program that computes beta from the features (linear, batch norm, vector)."""

    def __init__(self, inputs: int, width: int, norm: bool = True):
        super().__init__()
        self.linear = RowLinear(inputs, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.attention = nn.Parameter(torch.empty(2, width))
        nn.init.uniform_(self.attention, -((2 * width) ** -0.5), (2 * width) ** -0.5)

    def forward(self, batch: EdgeBatch) -> Tensor:
        hidden = self.linear(batch.rows)
        ends = (batch.source, batch.target)
        scores = [
            self._norm(hidden.index_select(0, end)) @ side for end, side in zip(ends, self.attention, strict=True)
        ]
        return torch.sigmoid(scores[0] + scores[1])

    def _norm(self, rows: Tensor) -> Tensor:
        return self.norm(rows) if len(rows) > 1 else rows


class STRContrast(nn.Module):
    r"""The structural self-contrasting network of GSSC.

    An MLP with two heads. Head f gives y, the prediction; head g gives z, on which neighbours and negatives are
    compared. The two ends of an edge are mixed to a point between them (Eq. 8)

    .. math:: g_{i \to j} = g(\beta h_j + (1 - \beta) h_i), \quad \beta = \mathrm{sigmoid}(a^T [h_i \| h_j])

    Training compares the pairs of an :class:`~gssc.train.batches.EdgeBatch`; prediction needs a feature row
    only. As in any torch module, ``train()`` and ``eval()`` switch batch statistics and dropout.

    Args:
        inputs: number of features d.
        outputs: number of classes (or binary tasks) C.
        config: see :class:`gssc.models.settings.STRContrastSettings`.
        rng: draws dropout masks on a CPU; by default a new one.
        plain: compute everything with ordinary torch, as on devices other than a CPU.
    """

    passes_messages: ClassVar[bool] = False
    learns_from_edges: ClassVar[bool] = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        config: STRContrastSettings,
        rng: np.random.Generator | None = None,
        plain: bool = False,
    ):
        super().__init__()
        self.config, self.rng = config, rng or np.random.default_rng()
        width = config.hidden
        between = partial(NormActivation, width, config, self.rng, plain)
        self.first = RowLinear(inputs, width)
        self.norms = nn.ModuleList(between() for _ in range(config.layers - 1))
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(config.layers - 1))
        self.predict_norm = between()
        self.contrast_norm = between() if config.head_norms == "separate" else self.predict_norm
        self.predict_head = nn.Linear(width, outputs)
        self.contrast_head = nn.Linear(width, outputs)
        if config.mix_by == "own_net":
            self.mix = MixNet(inputs, config.mix_hidden, config.norm == "batch")
        elif config.mix_by == "vector":
            self.mix_vector = nn.Linear(2 * width, 1, bias=False)

    def __repr__(self) -> str:
        inputs, width = self.first.weight.shape
        widths = [inputs, *[width] * self.config.layers, self.predict_head.out_features]
        return f"STRContrast({' -> '.join(map(str, widths))})"

    def parameter_groups(self, mix_lr: float) -> list[dict[str, Any]]:
        """Return the parameter groups of the optimiser; the parameters of beta, if any, have the rate ``mix_lr``."""
        named = list(self.named_parameters())
        mixing = [parameter for name, parameter in named if name.startswith("mix")]
        groups: list[dict[str, Any]] = [{"params": [each for name, each in named if not name.startswith("mix")]}]
        return [*groups, {"params": mixing, "lr": mix_lr}] if mixing else groups

    def forward(self, rows: Rows) -> Tensor:
        """Return y of feature rows, without a graph, [n, C]."""
        hidden = self.predict_norm(self._last_layer(rows), tracked=1)
        return scores(self.predict_head, hidden)[0] if self.training else self.predict_head(hidden)[0]

    def _last_layer(self, rows: Rows) -> Tensor:
        """Return the last pre-activation of feature rows, in one role, [1, n, width]."""
        hidden = self.first(rows).unsqueeze(0)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            hidden = linear(norm(hidden, tracked=1))
        return hidden

    def compare(self, batch: EdgeBatch) -> PairLogits:
        """Return y and z of everything a batch of pairs compares; for the order of rows see :func:`gather_and_mix`."""
        if self.config.mix_at == "output":
            return self.compare_rows(batch).pairs()
        roles = [batch.source, batch.target] + ([] if batch.negative is None else [batch.negative])
        rows, positions = self.first(batch.rows), torch.cat(roles)
        mix_first, one_norm = self.config.mix_at == "first", self.config.head_norms == "shared"
        if mix_first:
            beta = self._beta(rows, batch, positions[: 2 * len(batch)].view(2, -1))
            hidden = gather_and_mix(rows, positions, beta)
        else:
            hidden = rows.index_select(0, positions).view(len(roles), len(batch), -1)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            hidden = linear(norm(hidden, tracked=2))
        if not mix_first:
            hidden = self.predict_norm(hidden, tracked=2) if one_norm else hidden
            ends, drawn = hidden.split([2, len(roles) - 2])
            hidden = torch.cat([ends, mix_ends(ends, self._beta(ends, batch)), drawn])
        # In-batch negatives are the targets, which come right before the mixed points.
        ends, sides = windows(hidden, 2, 1 if batch.negatives_in_batch else 2)
        if mix_first or not one_norm:
            ends, sides = self.predict_norm(ends, tracked=2), self.contrast_norm(sides)
        return pair_logits(scores(self.predict_head, ends), scores(self.contrast_head, sides), batch)

    def compare_rows(self, batch: EdgeBatch) -> RowLogits:
        """Return the outputs of a batch whose rows pass the network once each, however many pairs they are in."""
        hidden, ends = self._last_layer(batch.rows), torch.stack([batch.source, batch.target])
        rows = self.predict_norm(hidden, tracked=1)[0]
        if self.config.head_norms == "shared" and self.config.mix_by == "vector":
            y, z, mix_scores = self._outputs(rows)
            beta = self._floored(mutual(mix_scores.index_select(0, ends.flatten()).view(2, -1, 2)))
        else:
            sides = rows if self.config.head_norms == "shared" else self.contrast_norm(hidden)[0]
            y, z, beta = self.predict_head(rows), self.contrast_head(sides), self._beta(sides, batch, ends)
        negative = batch.negative
        if batch.negatives_in_batch:
            negative = batch.target.roll(len(batch) // 2)  # neighbours in the batch may have an end in common
        return RowLogits(y, z, beta, ends, negative)

    def _outputs(self, rows: Tensor) -> list[Tensor]:
        """Return the outputs of both heads, [U, C], and the scores of beta, [U, 2], from one matrix product."""
        vector = self.mix_vector.weight.view(2, -1)
        weight = torch.cat([self.predict_head.weight, self.contrast_head.weight, vector])
        bias = torch.cat([self.predict_head.bias, self.contrast_head.bias, vector.new_zeros(2)])
        widths = [self.predict_head.out_features, self.contrast_head.out_features, 2]
        return [part.contiguous() for part in torch.addmm(bias, rows, weight.T).split(widths, 1)]

    def _beta(self, rows: Tensor, batch: EdgeBatch, ends: Tensor | None = None) -> Tensor:
        """Return beta' of Eq. 8 in both directions, [2, B]; ``ends`` [2, B] picks the rows of both ends."""
        if self.config.mix_by == "own_net":
            return self._floored(self.mix(batch).expand(2, -1))
        if self.config.mix_by == "off":
            return self._floored(rows.new_ones(2, len(batch)))
        mix_scores = rows @ self.mix_vector.weight.view(2, -1).T
        return self._floored(mutual(mix_scores if ends is None else mix_scores[ends]))

    def _floored(self, beta: Tensor) -> Tensor:
        """Return beta' = s + (1 - s) beta, see ``mix_floor``."""
        return self.config.mix_floor + (1 - self.config.mix_floor) * beta

    @torch.no_grad()
    def folded_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the prediction path as plain (weight [out, in], bias) pairs with every batch norm folded in.

        A norm right after a linear map is folded into that map; a norm after the activation into the next map.
        """
        maps = [(self.first.weight.T, self.first.bias)]
        maps += [(linear.weight, linear.bias) for linear in (*self.linears, self.predict_head)]
        for place, step in enumerate([*self.norms, self.predict_norm]):
            factor, offset = step.norm.affine()
            if self.config.layer_order == "norm_first":
                weight, bias = maps[place]
                maps[place] = factor.unsqueeze(1) * weight, factor * bias + offset
            else:
                weight, bias = maps[place + 1]
                maps[place + 1] = weight * factor, bias + weight @ offset
        return [(weight.cpu().numpy().copy(order="C"), bias.cpu().numpy().copy()) for weight, bias in maps]


def mutual(scores: Tensor) -> Tensor:
    """Return beta in both directions, [2, B], from a^T h of both ends in the roles of h_i and h_j, [2, B, 2]."""
    return torch.sigmoid(scores[..., 0] + scores[..., 1].flip(0))


def scores(head: nn.Linear, hidden: Tensor) -> Tensor:
    """Return the output of a head for rows by role, [roles, n, C], computed as a transposed product.

    A product with few columns takes nearly twice as long as one with few rows.
    """
    return columns(head, hidden.flatten(0, 1)).T.unflatten(0, hidden.shape[:2])


def columns(head: nn.Linear, hidden: Tensor) -> Tensor:
    """Return the output of a head for rows [n, width], one column per row, [C, n]."""
    return torch.addmm(head.bias.unsqueeze(1), head.weight, hidden.T)


def pair_logits(endpoint_logits: Tensor, side_logits: Tensor, batch: EdgeBatch) -> PairLogits:
    """Return y and the z of mixed points and negatives, [2 or 3, B, C], in the form the losses expect."""
    if len(side_logits) == 2:
        return PairLogits(endpoint_logits, side_logits, None)
    if not batch.negatives_in_batch:
        return PairLogits(endpoint_logits, side_logits[:2], side_logits[2])
    # Pairs come in random order, so the target of another pair is a random node.
    return PairLogits(endpoint_logits, side_logits[1:], side_logits[0].roll(1, 0))

"""STR-Contrast: the MLP that learns from pairs and predicts from a feature row alone (Eq. 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gssc.features import RowLinear, Rows
from gssc.models.mixing import gather_and_mix, in_single, mix_ends, windows
from gssc.models.norm_activation import NormActivation
from gssc.settings import setting

if TYPE_CHECKING:
    from gssc.train.batches import EdgeBatch


@dataclass
class STRContrastSettings:
    """STR-Contrast, the MLP that is trained and later deployed (Sec. III-C of the paper).

    Args:
        name: name of the model; other models have other settings, see ``gssc train --model NAME --help``.
        hidden: width F of every hidden layer.
        layers: number of hidden layers L; the deployed model is L + 1 matrix products.
        dropout: share of hidden units dropped in training, in steps of 1/256.
        activation: ``leaky_relu`` (released program) or ``relu`` (text).
        norm: ``batch`` normalises hidden units over the batch; ``none`` leaves batch norm out, so that training with
            several processes gives the same result as with one, see :mod:`gssc.train.distributed`.
        layer_order: ``norm_first`` is batch norm, activation, dropout (released program);
            ``activation_first`` is activation, batch norm, dropout (text).
        head_norms: ``separate`` gives each of the two heads its own last batch norm, activation and dropout (released
            program), ``shared`` applies one before two linear heads (text).
        mix_at: where the two ends of an edge are mixed (Eq. 8): ``first`` pre-activation (released program), ``last``
            hidden layer (text), or ``output``, the outputs of head g. With a linear head, ``output`` is the formula of
            the text, computed for every row once instead of for every pair: much faster if pairs share rows.
        mix_by: source of beta: ``own_net`` (released program: linear, batch norm, vector), ``vector`` (text: one
            shared vector on the mixed layer, separately for both directions of an edge), ``off`` (beta = 1,
            the ablation). The released program's net gives both directions of an edge the same beta.
        mix_hidden: width of the net of ``own_net``; 256 in the released program.
        mix_floor: s in beta' = s + (1 - s) beta; the larger s, the closer the mixed point is to the neighbour.
    """

    name: Literal["str_contrast"] = "str_contrast"
    hidden: int = setting(256, low=1, high=2**20)
    layers: int = setting(2, low=1, high=1000)
    dropout: float = setting(0.5, low=0, high=0.99)
    activation: Literal["leaky_relu", "relu"] = "leaky_relu"
    norm: Literal["batch", "none"] = "batch"
    layer_order: Literal["norm_first", "activation_first"] = "norm_first"
    head_norms: Literal["separate", "shared"] = "separate"
    mix_at: Literal["first", "last", "output"] = "first"
    mix_by: Literal["own_net", "vector", "off"] = "own_net"
    mix_hidden: int = setting(64, low=1, high=2**20)
    mix_floor: float = setting(0.8, low=0, high=1)


@dataclass
class PairLogits:
    """Logits that the losses need, for a batch of B pairs with C classes."""

    endpoints: Tensor  # y of source and target, [2, B, C]
    mixed: Tensor  # z of the points i->j and j->i, [2, B, C]
    negatives: Tensor | None  # z of one non-neighbour per pair, [B, C]

    def float(self) -> PairLogits:
        """Return the logits in single precision."""
        return PairLogits(
            self.endpoints.float(), self.mixed.float(), None if self.negatives is None else self.negatives.float()
        )


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
        config: see :class:`STRContrastSettings`.
        rng: draws dropout masks on a CPU; by default a new one.
        plain: compute everything with ordinary torch, as on devices other than a CPU.
    """

    Settings: ClassVar[type] = STRContrastSettings
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
        """Return the parameter groups of the optimiser: first the rest, then those of beta, with their own rate."""
        mixing = [name for name, _ in self.named_parameters() if name.startswith("mix")]
        named = dict(self.named_parameters())
        groups: list[dict[str, Any]] = [{"params": [named[name] for name in named if name not in mixing]}]
        return groups + ([{"params": [named[name] for name in mixing], "lr": mix_lr}] if mixing else [])

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
            return self._compare_outputs(batch)
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

    def _compare_outputs(self, batch: EdgeBatch) -> PairLogits:
        """Return the logits of a batch whose rows pass the network once each, however many pairs they are in.

        Only numbers per class are gathered for pairs, with classes before pairs, which is the fast order.
        """
        hidden = self._last_layer(batch.rows)
        ends = self.predict_norm(hidden, tracked=1)[0]
        sides = ends if self.config.head_norms == "shared" else self.contrast_norm(hidden)[0]
        positions = torch.cat([batch.source, batch.target])
        shape = (-1, 2, len(batch))
        y = columns(self.predict_head, ends).index_select(1, positions).view(shape)
        z_of_rows = columns(self.contrast_head, sides)
        z = z_of_rows.index_select(1, positions).view(shape)
        beta = self._beta(sides, batch, positions.view(2, -1))
        mixed = torch.lerp(in_single(z), in_single(z).flip(1), in_single(beta))
        negatives = None
        if batch.negatives_in_batch:
            negatives = z[:, 1].roll(len(batch) // 2, 1)  # neighbours in the batch may have an end in common
        elif batch.negative is not None:
            negatives = z_of_rows.index_select(1, batch.negative)
        return PairLogits(y.permute(1, 2, 0), mixed.permute(1, 2, 0), None if negatives is None else negatives.T)

    def _beta(self, rows: Tensor, batch: EdgeBatch, ends: Tensor | None = None) -> Tensor:
        """Return beta' of Eq. 8 in both directions, [2, B]; ``ends`` are the positions of the ends, default all."""
        floor = self.config.mix_floor
        return floor + (1 - floor) * self._free_beta(rows, batch, ends)

    def _free_beta(self, rows: Tensor, batch: EdgeBatch, ends: Tensor | None) -> Tensor:
        if self.config.mix_by == "own_net":
            return self.mix(batch).expand(2, -1)
        if self.config.mix_by == "off":
            return rows.new_ones(2, len(batch))
        scores = rows @ self.mix_vector.weight.view(2, -1).T  # in the role of i and in that of j, [..., 2]
        scores = scores if ends is None else scores[ends]
        return torch.sigmoid(scores[..., 0] + scores[..., 1].flip(0))

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

"""The objectives that train a sparsifier under a model without message passing (Eq. 14 and 16)."""

from __future__ import annotations

from torch import Tensor

from gssc.errors import GsscError
from gssc.train import losses


def homophily_loss(objective: str, weights: Tensor, agreement: Tensor, pair_losses: Tensor | None = None) -> Tensor:
    """Return the loss of psi: the released program's ratio, the share of Eq. 16, or Eq. 14, which empties the graph.

    Args:
        objective: ``ratio``, ``share`` or ``masked_smoothness``.
        weights: g' of each pair, with gradient.
        agreement: whether the pair's pseudo-labels agree.
        pair_losses: l_ij of each pair, for Eq. 14.
    """
    if objective == "share":
        return -losses.homophily_share(weights, agreement)
    if objective == "masked_smoothness":
        if pair_losses is None:
            raise GsscError(
                "sparsifier.objective masked_smoothness (Eq. 14) is for str_contrast: other models have no l_ij"
            )
        return losses.masked_smoothness(weights, pair_losses)
    return losses.homophily_ratio(weights, agreement)

"""Feature rows of a request: dense, or what makes a CSR matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseRequest:
    """Rows given by their non-zero entries, row after row, and by how many each of them has."""

    data: np.ndarray
    indices: np.ndarray
    lengths: list[int]

    def __len__(self) -> int:
        return len(self.lengths)


Features = np.ndarray | SparseRequest


def join(parts: Sequence[Any], width: int) -> Any:
    """Rows of several requests, all dense or all sparse, as one matrix."""
    if not isinstance(parts[0], SparseRequest):
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    from scipy import sparse

    lengths = list(chain.from_iterable(part.lengths for part in parts))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    return sparse.csr_matrix((data, indices, indptr), shape=(len(lengths), width))

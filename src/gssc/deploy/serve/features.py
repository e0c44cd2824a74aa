"""Feature rows of a request: dense, or the three arrays of a CSR matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows given by their non-zero entries; ``indptr`` starts at zero."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    def __len__(self) -> int:
        return len(self.indptr) - 1


Features = np.ndarray | SparseRows


def join(parts: Sequence[Any], width: int) -> Any:
    """Rows of several requests, all dense or all sparse, as one matrix."""
    if not isinstance(parts[0], SparseRows):
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    from scipy import sparse

    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    return sparse.csr_matrix((data, indices, indptr), shape=(len(lengths), width))

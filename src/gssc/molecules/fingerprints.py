"""Morgan fingerprints by RDKit: counts of circular substructures, folded to a fixed number of columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from gssc.extras import require
from gssc.molecules.smiles import parse


def morgan_counts(smiles: Iterable[str], radius: int = 2, columns: int = 2048) -> sp.csr_matrix:
    """Return the count fingerprints of molecules, [M, columns]."""
    generators = require("rdkit.Chem.rdFingerprintGenerator", extra="molecules")
    generator = generators.GetMorganGenerator(radius=radius, fpSize=columns)
    indices: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for text in smiles:
        counts = generator.GetCountFingerprint(parse(text)).GetNonzeroElements()
        columns_set = np.array(sorted(counts), dtype=np.int32)
        indices.append(columns_set)
        values.append(np.array([counts[int(column)] for column in columns_set], dtype=np.float32))
    starts = np.concatenate([[0], np.cumsum([len(each) for each in indices])]).astype(np.int32)
    parts = (np.concatenate(values), np.concatenate(indices), starts)
    return sp.csr_matrix(parts, shape=(len(indices), columns))

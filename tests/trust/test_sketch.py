from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gssc.trust import sketch as sketch_module
from gssc.trust.sketch import feature_sketch, unit_rows


def test_narrow_features_are_scaled_and_centred_only() -> None:
    found = feature_sketch(np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float32))
    np.testing.assert_allclose(found, [[0.3, -0.1], [-0.3, 0.1]], atol=1e-6)


def test_wide_features_keep_their_cosines_about_as_they_were() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40, 3000)).astype(np.float32)
    features[1] = features[0] + 0.5 * features[1]
    short = feature_sketch(features, width=512)
    assert short.shape == (40, 512)
    centred = unit_rows(features) - unit_rows(features).mean(axis=0)
    wanted, found = (unit_rows(rows) @ unit_rows(rows).T for rows in (centred, short))
    assert np.abs(wanted - found).max() < 5 / np.sqrt(512)
    assert found[0, 1] > 0.7


def test_sparse_dense_and_any_block_size_agree(monkeypatch) -> None:
    features = sp.random(50, 900, density=0.02, format="csr", dtype=np.float32, random_state=1)
    whole = feature_sketch(features, width=64)
    monkeypatch.setattr(sketch_module, "ROWS_AT_A_TIME", 7)
    np.testing.assert_allclose(feature_sketch(features, width=64), whole, atol=1e-6)
    np.testing.assert_allclose(feature_sketch(features.toarray(), width=64), whole, atol=1e-6)


def test_unit_rows_leaves_rows_of_zeros_alone() -> None:
    rows = np.array([[0.0, 0.0], [0.0, -5.0]], dtype=np.float32)
    np.testing.assert_array_equal(unit_rows(rows), [[0, 0], [0, -1]])
    np.testing.assert_array_equal(unit_rows(sp.csr_matrix(rows)).toarray(), [[0, 0], [0, -1]])


@pytest.mark.parametrize("kind", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_rows_of_any_size_are_scaled_to_length_one(kind, size: float) -> None:
    found = unit_rows(kind(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32) * np.float32(size)))
    found = found.toarray() if sp.issparse(found) else found
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
    assert np.isfinite(unit_rows(np.full((1, 2), 1e-45, dtype=np.float32))).all()

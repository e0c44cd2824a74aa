from __future__ import annotations

import numpy as np
import predict
import pytest


@pytest.mark.parametrize("title", predict.CASES)
@pytest.mark.parametrize("engine", ["NumPy", "torch"])
def test_the_bare_side_multiplies_what_the_model_does(title: str, engine: str) -> None:
    """Without biases, activations and normalisation, both sides are the same numbers."""
    case = predict.CASES[title]
    widths = [case["widths"][0], 8, case["widths"][-1]]
    model = predict.make_model(widths)
    model.layers[0][0][:], model.layers[0][1][:], model.layers[1][1][:] = abs(model.layers[0][0]), 0, 0
    model.__post_init__()
    x = predict.make_rows(50, widths[0], case.get("per_row"))
    bare = np.asarray(predict.bare_products(model, x, engine)())
    np.testing.assert_allclose(bare, model.logits(x), rtol=1e-4, atol=1e-4)


def test_measuring_gives_one_line_per_case_and_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "CASES", {"tiny": {"rows": 5, "widths": [3, 4, 2]}})
    results = predict.measure(repeats=1)
    assert [(title, engine) for title, engine, *_ in results] == [("tiny", "NumPy"), ("tiny", "torch")]

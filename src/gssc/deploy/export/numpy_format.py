"""The model as a folder that needs NumPy and nothing else: weights, description, and one Python file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from gssc.deploy.export import numpy_predictor
from gssc.deploy.export.run_model import RunModel

USE = """\
Needs Python 3.10 or later and NumPy, but not gssc. `predict.py` reads `model.json` and
`model.safetensors` in the same folder.

```python
from predict import Predictor

model = Predictor()
model.predict_proba(rows)  # [n, classes]; also logits(rows) and predict(rows)
model.class_names
```

Rows are an array [n, features], a SciPy sparse matrix, or `(data, indices, indptr)`, the three arrays of a CSR matrix.
For tables:

```console
python predict.py rows.csv predictions.csv
```
"""


def write(run_model: RunModel, folder: Path) -> None:
    """Write the model in its own format, which ``predict.py`` reads without safetensors, and that file."""
    run_model.model.save(folder)
    shutil.copyfile(numpy_predictor.__file__, folder / "predict.py")


def outputs(folder: Path, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and probabilities as the copied file computes them."""
    model = numpy_predictor.Predictor(folder)
    return model.logits(rows), model.predict_proba(rows)

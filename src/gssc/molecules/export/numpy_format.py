"""The model as a folder that needs NumPy and RDKit: weights and three Python files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np

from gssc.molecules.deployed import DeployedMolecules

USE = """\
Needs Python 3.10 or later, NumPy and RDKit, but not gssc.

```python
from predict import Predictor

model = Predictor()
model.predict(["CCO", "c1ccccc1"])  # [molecules, targets]; NaN where RDKit cannot read a text
model.target_names
```

```console
python predict.py molecules.csv predictions.csv smiles
```
"""
PREDICTOR = "gssc.molecules.export.predictor"


def write(model: DeployedMolecules, folder: Path) -> None:
    """Write weights, the predictor, and the modules that define an atom's row."""
    np.savez(folder / "model.npz", about=np.array(json.dumps(model.description())), **model.arrays())  # type: ignore[arg-type]
    write_row_modules(folder)
    copy(Path(__file__).with_name("predictor.py"), folder / "predict.py")


def write_row_modules(folder: Path) -> None:
    """Write the modules that define an atom's row."""
    for name in ("fields.py", "environments.py"):
        copy(Path(__file__).parent.parent / name, folder / name)


def copy(source: Path, target: Path) -> None:
    """Copy a module with its imports changed to modules in the same folder."""
    text = source.read_text(encoding="utf-8").replace("from gssc.molecules.", "from ")
    target.write_text(text, encoding="utf-8")


def outputs(folder: Path, smiles: Sequence[str]) -> np.ndarray:
    """Return predictions by the copied predictor, from the weights in the folder."""
    return np.asarray(import_module(PREDICTOR).Predictor(folder).predict(smiles))

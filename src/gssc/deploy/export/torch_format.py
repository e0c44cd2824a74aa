"""The model as a torch module: weights as safetensors, and a small file that builds the module around them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch

from gssc.deploy.export import torch_module
from gssc.deploy.export.run_model import RunModel

USE = """\
Needs torch and safetensors, but not gssc. `model.py` reads `model.json` and `model.safetensors` in the same folder.

```python
from model import load

model = load()  # an nn.Module in eval mode
model(rows)  # logits; rows: float32 [n, features], dense or sparse (COO, CSR)
model.probabilities(rows)
model.class_names
```

The parameters are `layers.N.weight` and `layers.N.bias`, so `state_dict()` and fine-tuning work as usual.
"""


def write(run_model: RunModel, folder: Path) -> None:
    """Write the model in its own format, and the file that makes a module of it."""
    run_model.model.save(folder)
    shutil.copyfile(torch_module.__file__, folder / "model.py")


def outputs(folder: Path, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and probabilities as the copied file computes them."""
    model = torch_module.load(folder)
    with torch.inference_mode():
        tensor = torch.from_numpy(rows)
        return model(tensor).numpy(), model.probabilities(tensor).numpy()

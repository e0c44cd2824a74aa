"""The optimiser, in a process that compiles nothing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import torch
from types import SimpleNamespace
from gssc.train.optimize import adam, descend, without_compiler
without_compiler()
weight = torch.nn.Parameter(torch.tensor([1.0]))
optimizer = adam([weight], SimpleNamespace(lr=0.5, weight_decay=0.0))
descend((weight * 2).sum(), optimizer)
assert abs(weight.item() - 0.5) < 1e-3, weight
assert weight.grad.item() == 2
optimizer.load_state_dict(optimizer.state_dict())
assert "torch._dynamo" not in sys.modules
"""


def test_an_optimiser_is_made_without_importing_the_compiler() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)

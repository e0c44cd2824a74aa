"""What several tests share: a small model, and the real command line."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from gssc.cli.main import main
from gssc.deploy import DeployedModel

# The same examples every time, so that a failure is due to a change and not to chance; and no deadline, because the
# machine may be busy. HYPOTHESIS_PROFILE=default looks for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def model() -> DeployedModel:
    """Three features, four hidden units, two classes; random but always the same."""
    rng = np.random.default_rng(0)
    layers = [
        (rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal(4).astype(np.float32)),
        (rng.standard_normal((2, 4)).astype(np.float32), rng.standard_normal(2).astype(np.float32)),
    ]
    return DeployedModel(layers, class_names=["cat", "dog"])


@pytest.fixture
def model_folder(model: DeployedModel, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    model.save(folder)
    return folder


@pytest.fixture(scope="module")
def short_students() -> Iterator[None]:
    """Limit the students of the default learner to few steps, for tests that do not depend on how well they learn."""
    from gssc.learner.student import StudentTraining

    original = StudentTraining.__init__

    def short(self: Any, rows: Any, soft: Any, nodes: Any, settings: Any, *rest: Any) -> None:
        original(self, rows, soft, nodes, replace(settings, steps=min(settings.steps, 30)), *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StudentTraining, "__init__", short)
        yield


@pytest.fixture
def gssc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run ``gssc`` with these arguments in ``tmp_path`` and return its exit code and what it printed.

    It runs within this process, which spares the seconds that importing torch takes; ``gssc_process`` starts one.
    """

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        command = [str(argument) for argument in arguments]
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in "ab")
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setenv("COLUMNS", "200")
            patch.setenv("NO_COLOR", "1")
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                code = main(command)
            except SystemExit as left:
                code = left.code or 0
        return subprocess.CompletedProcess(command, code, *(one.buffer.getvalue().decode() for one in (out, err)))

    return run


@pytest.fixture
def gssc_process(tmp_path: Path) -> RunCommand:
    """Run ``gssc`` with these arguments in ``tmp_path`` as a process of its own and return the finished process."""

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gssc", *map(str, arguments)]
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)

    return run

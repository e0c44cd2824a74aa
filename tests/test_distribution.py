"""The wheel and the sdist, built, installed and used in an environment of their own, without torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gssc.deploy import DeployedModel

ROOT = Path(__file__).parent.parent
# Nothing of the environment that runs the tests may reach the one that is tested.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

pytestmark = pytest.mark.slow


def run(*command: str | Path, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], env=CLEAN, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel, built from the sdist, and the sdist."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory) -> Path:
    """The interpreter of a new environment with the wheel and the extra `serve`."""
    place = tmp_path_factory.mktemp("light") / "venv"
    assert run(sys.executable, "-m", "venv", place).returncode == 0
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    (wheel,) = built.glob("*.whl")
    # Versions are pinned, so that nothing is resolved; bytecode is left to first use.
    install = [python, "-m", "pip", "install", "-q", "--no-compile", "--only-binary", ":all:", "--retries", "1"]
    fetched = run(*install, "-c", ROOT / "constraints.txt", f"{wheel}[serve]")
    if fetched.returncode and re.search(r"Could not find a version|connection|Temporary failure", fetched.stderr):
        pytest.skip("no package index to install from")
    assert fetched.returncode == 0, fetched.stderr
    return python


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    layers = [(np.eye(2, dtype=np.float32), np.zeros(2)), (np.eye(2, dtype=np.float32), np.zeros(2))]
    DeployedModel(layers, ["left", "right"], feature_names=["l", "r"]).save(folder)
    return folder


def test_what_is_in_the_files(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        metadata = next(name for name in names if name.endswith("METADATA"))
        needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", file.read(metadata).decode(), re.MULTILINE)
    assert {"gssc/audit/page.html", "gssc/py.typed", "gssc/recipes/cora.yaml"} <= names
    assert all(name.startswith(("gssc/", "gssc-")) for name in names)
    assert {name.lower() for name in needed} == {"numpy", "scipy", "safetensors", "rich", "jsonargparse", "pyyaml"}
    with tarfile.open(sdist) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    assert {"pyproject.toml", "LICENSE", "Makefile", "constraints.txt", "tests/conftest.py", "Dockerfile"} <= inside


def test_the_light_install_predicts_without_torch(python: Path, model: Path, tmp_path: Path) -> None:
    assert run(python, "-m", "pip", "check").returncode == 0
    assert run(python, "-c", "import torch").returncode == 1
    (tmp_path / "rows.csv").write_text("l,r\n1,0\n0,3\n")
    found = run(python, "-m", "gssc", "predict", model, tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert found.returncode == 0, found.stderr
    predicted = [line.split(",")[1] for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert predicted[1:] == ["left", "right"]
    exported = run(python, "-m", "gssc", "export", model, "--format", "numpy", "--out", tmp_path / "exported")
    assert exported.returncode == 0, exported.stderr
    assert "tolerance" in exported.stdout
    streamed = subprocess.run(
        [str(python), "-m", "gssc", "predict", str(model), "-", "-o", "-"],
        env=CLEAN, input="l,r\n1,0\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert streamed.stdout.splitlines()[1].split(",")[1] == "left"
    imported = run(python, "-c", "import gssc.report; import gssc.audit")
    assert imported.stderr.splitlines()[-1].endswith("GsscError: torch is not installed: pip install 'gssc[train]'")
    completion = run(python, "-m", "gssc", "completion", "bash")
    assert completion.returncode == 0, completion.stderr
    assert '"predict") options="--decimal' in completion.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "csbm"], "torch is not installed: pip install 'gssc[train]'"),
        (
            ["train", "csbm", "--track", "tensorboard,mlflow"],
            "torch, tensorboard and mlflow are not installed: pip install 'gssc[train,tensorboard,mlflow]'",
        ),
        (["audit", "MODEL", "--out", "audit.html"], "torch is not installed: pip install 'gssc[train]'"),
        (["demo"], "torch is not installed: pip install 'gssc[train]'"),
        (["train", "bbbp"], "torch is not installed: pip install 'gssc[molecules]'"),
        (["tune", "csbm"], "torch and optuna are not installed: pip install 'gssc[train,tune]'"),
        (["plot", "MODEL"], "torch and matplotlib are not installed: pip install 'gssc[train,report]'"),
        (["score", "MODEL", "ROWS", "--out", "s", "--engine", "ray"], "ray is not installed: pip install 'gssc[ray]'"),
        (["export", "MODEL", "--format", "onnx"], "onnx is not installed: pip install 'gssc[export]'"),
        (["export", "MODEL", "--format", "torch"], "torch is not installed: pip install 'gssc[train]'"),
    ],
)
def test_a_missing_extra_is_one_line(python: Path, model: Path, tmp_path: Path, arguments, extra: str) -> None:
    words = [str(model) if word == "MODEL" else word for word in arguments]
    command = [str(python), "-m", "gssc", *words]
    found = subprocess.run(command, cwd=tmp_path, env={**CLEAN, "NO_COLOR": "1"}, capture_output=True, text=True)
    assert (found.returncode, found.stderr.strip()) == (2, f"error: {extra}")


def test_the_light_install_serves(python: Path, model: Path) -> None:
    command = [str(python), "-m", "gssc", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, env=CLEAN, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = re.search(r"http://127.0.0.1:\d+", server.stderr.readline())
            assert address is not None
            request = urllib.request.Request(
                f"{address[0]}/predict",
                data=json.dumps({"rows": [[2, 1], [0, 3]]}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert json.loads(answer.read())["classes"] == [0, 1]
        finally:
            server.terminate()
            deadline = time.monotonic() + 30
            while server.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            server.kill()

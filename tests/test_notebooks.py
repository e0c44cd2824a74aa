"""The notebooks of docs/notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# A path from the root (of two parts at least) or from a drive; part of neither an address nor a relative path.
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/~<-])/\w[\w.-]*/\w|\b[A-Za-z]:\\\\\w")
DRAWS = re.compile(r"^plt\.show\(\)$", re.MULTILINE)

# In a process of its own, because the client leaves sockets to the garbage collector. It knows one kernel, made of the
# Python that runs the tests, whatever kernels the machine has installed.
RUNNER = """
import sys
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

class ThisInterpreter(KernelSpecManager):
    def get_kernel_spec(self, kernel_name):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name=kernel_name, language="python", resource_dir="")

source, target, folder = sys.argv[1:]
notebook = nbformat.read(source, as_version=4)
manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())
NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, target)
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    # Files of the kernel and of matplotlib belong to the test, not to the home folder.
    own = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
    environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    run = tmp_path / "run.ipynb"
    command = [sys.executable, "-c", RUNNER, str(path), str(run), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(run, as_version=4)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    complaints = [output.text for output in outputs if output.get("name") == "stderr"]
    assert complaints == []
    drawn = sum("image/png" in output.get("data", {}) for output in outputs)
    assert drawn == sum(len(DRAWS.findall(cell.source)) for cell in notebook.cells) > 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_names_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert notebook.cells[0].source.startswith("# ")
    assert notebook.metadata.kernelspec.name == "python3"
    assert not ABSOLUTE_PATH.search(path.read_text(encoding="utf-8"))


def test_the_notebooks_are_there_and_on_the_page() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert [path.stem for path in NOTEBOOKS] == ["citation_graph_under_noise", "digits_without_a_graph", "molecules"]
    assert all(f"(notebooks/{path.name})" in page for path in NOTEBOOKS)

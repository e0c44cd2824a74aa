from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gssc.data.scaling import Scaling
from gssc.deploy import DeployedModel
from gssc.deploy.export import export_run, folder, numpy_predictor, onnx_format, torch_module
from gssc.errors import GsscError
from gssc.models.graph_mlp import GraphMLP
from gssc.models.link_dist import LinkDist
from gssc.models.settings import STRContrastSettings
from gssc.models.str_contrast import STRContrast

CLOSE = {"rtol": 0, "atol": 1e-5}


def trained(activation: str = "leaky_relu", layer_order: str = "norm_first", layers: int = 2) -> STRContrast:
    """A network whose batch norms have something to fold."""
    torch.manual_seed(0)
    config = STRContrastSettings(hidden=16, layers=layers, activation=activation, layer_order=layer_order)  # type: ignore[arg-type]
    return with_other_norms(STRContrast(12, 5, config))


def with_other_norms(model: Any) -> Any:
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif name.endswith(("running_mean", "scale", "shift", "bias", "norm.weight", "over_row.weight")):
                value.add_(0.3 * torch.randn_like(value))
    return model.eval()


def deployed(model: STRContrast, **options: Any) -> DeployedModel:
    names = ["α", "b|c", "d", "e", "f"]
    return DeployedModel(model.folded_layers(), names, activation=model.config.activation, **options)


def some_rows(rows: int = 40) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = ((rng.random((rows, 12)) < 0.3) * rng.standard_normal((rows, 12))).astype(np.float32)
    x[:1] = 0
    return x


def true_outputs(model: STRContrast, x: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Logits and probabilities of the network as it was trained: batch norm apart, normalisation before it."""
    rows = torch.from_numpy(x)
    if options.get("normalize") == "row":
        sums = rows.abs().sum(1, keepdim=True)
        rows = rows / torch.where(sums == 0, 1.0, sums)
    with torch.no_grad():
        logits = model.eval()(rows)
    scaled = logits / options.get("temperature", 1.0)
    return logits.numpy(), (scaled.sigmoid() if options.get("task") == "multilabel" else scaled.softmax(1)).numpy()


def by_onnx(where: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return run_onnx(where / "model.onnx", {"x": x})


def by_onnx_sparse(where: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    namespace: dict[str, Any] = {}
    code = next(block for block in re.findall(r"```python\n(.*?)```", onnx_format.USE, re.S) if "def padded" in block)
    exec(code[: code.index("session")], namespace)
    return run_onnx(where / "model_sparse.onnx", namespace["padded"](sparse.csr_matrix(x)))


def run_onnx(path: Path, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    logits, probabilities = session.run(["logits", "probabilities"], inputs)
    return logits, probabilities


def by_numpy(where: Path, x: Any) -> tuple[np.ndarray, np.ndarray]:
    model = numpy_predictor.Predictor(where)
    return model.logits(x), model.predict_proba(x)


def by_torch(where: Path, x: Any) -> tuple[np.ndarray, np.ndarray]:
    model = torch_module.load(where)
    with torch.inference_mode():
        return model(x).numpy(), model.probabilities(x).numpy()


def csr_parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    matrix = sparse.csr_matrix(x)
    return matrix.data, matrix.indices, matrix.indptr


def torch_csr(x: np.ndarray) -> torch.Tensor:
    data, indices, indptr = map(torch.from_numpy, csr_parts(x))
    return torch.sparse_csr_tensor(indptr, indices, data, size=x.shape)


READERS = {
    "onnx": [by_onnx, by_onnx_sparse],
    "numpy": [
        by_numpy,
        lambda where, x: by_numpy(where, sparse.csr_matrix(x)),
        lambda where, x: by_numpy(where, sparse.csr_array(x.astype(np.float64))),
        lambda where, x: by_numpy(where, csr_parts(x)),
    ],
    "torch": [
        lambda where, x: by_torch(where, torch.from_numpy(x)),
        lambda where, x: by_torch(where, torch.from_numpy(x).to_sparse_coo()),
        lambda where, x: by_torch(where, torch_csr(x)),
    ],
}
OPTIONS = [
    {},
    {"normalize": "row", "temperature": 1.7},
    {"normalize": "row", "task": "multilabel", "temperature": 0.5},
]


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls its CSR a prototype
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "normalised", "multilabel"])
@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
@pytest.mark.parametrize("format", READERS)
def test_every_output_is_the_trained_models(
    tmp_path: Path, format: str, activation: str, layer_order: str, options: dict[str, Any]
) -> None:
    network = trained(activation, layer_order)
    deployed(network, **options).save(tmp_path)
    export = export_run(tmp_path, format)
    assert export.difference is not None
    assert export.difference < 1e-5
    assert export.tolerance >= 1e-5
    assert export.checked in (export.folder / "MODEL_CARD.md").read_text()
    assert f"(tolerance {export.tolerance:.0e})" in export.checked
    for read in READERS[format]:
        for x in (some_rows(40), some_rows(1), some_rows(3)[1:]):
            logits, probabilities = read(export.folder, x)
            true_logits, true_probabilities = true_outputs(network, x, options)
            np.testing.assert_allclose(logits, true_logits, **CLOSE)
            np.testing.assert_allclose(probabilities, true_probabilities, **CLOSE)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("rival", [GraphMLP, LinkDist])
@pytest.mark.parametrize("format", READERS)
def test_rivals_with_layer_norm_are_exported_too(tmp_path: Path, format: str, rival: Any) -> None:
    torch.manual_seed(0)
    network, names = with_other_norms(rival(12, 5, hidden=16)), ["α", "b|c", "d", "e", "f"]
    model = DeployedModel(network.folded_layers(), names, activation=network.activation)
    x = some_rows(40)
    true_logits, true_probabilities = true_outputs(network, x, {})
    np.testing.assert_allclose(model.logits(x), true_logits, atol=1e-5)
    np.testing.assert_allclose(model.logits(x[3:4]), true_logits[3:4], atol=1e-5)
    model.save(tmp_path)
    export = export_run(tmp_path, format)
    for read in READERS[format]:
        logits, probabilities = read(export.folder, x)
        np.testing.assert_allclose(logits, true_logits, rtol=0, atol=2e-5)
        np.testing.assert_allclose(probabilities, true_probabilities, **CLOSE)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("format", READERS)
def test_squashed_columns_are_exported_too(tmp_path: Path, format: str) -> None:
    network, x = trained("leaky_relu"), np.exp(2 * np.random.default_rng(0).standard_normal((40, 12)))
    scaling, (first, *rest) = Scaling.of(x, "asinh"), network.folded_layers()
    layers, activation = [scaling.squashing_layer(), scaling.folded(first), *rest], "asinh,leaky_relu,leaky_relu"
    DeployedModel(layers, ["α", "b|c", "d", "e", "f"], activation=activation).save(tmp_path)
    true_logits, _ = true_outputs(network, scaling.applied(x).astype(np.float32), {})
    export = export_run(tmp_path, format)
    for read in READERS[format]:
        np.testing.assert_allclose(read(export.folder, x.astype(np.float32))[0], true_logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", READERS)
def test_a_single_linear_map(tmp_path: Path, format: str) -> None:
    weight, bias = np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 4.0]]), np.array([0.0, 1.0, -1.0])
    DeployedModel([(weight, bias)], ["a", "b", "c"], normalize="row").save(tmp_path)
    where = export_run(tmp_path, format).folder
    x = np.array([[1.0, -3.0], [0.0, 0.0]], dtype=np.float32)  # normalised: (0.25, -0.75)
    expected = [[1.75, 1.125, -4.0], [0.0, 1.0, -1.0]]
    readers = READERS[format][:2] if format != "torch" else READERS[format][:1]
    for read in readers:
        np.testing.assert_allclose(read(where, x)[0], expected, **CLOSE)


def test_onnx_is_one_product_per_layer_and_no_batch_norm(tmp_path: Path) -> None:
    deployed(trained(layers=2)).save(tmp_path)
    model = onnx.load(export_run(tmp_path, "onnx").folder / "model.onnx")
    operators = [node.op_type for node in model.graph.node]
    assert operators == ["Gemm", "LeakyRelu", "Gemm", "LeakyRelu", "Gemm", "Softmax"]
    assert model.opset_import[0].version == onnx_format.OPSET


def test_onnx_carries_names_and_digest(tmp_path: Path) -> None:
    features = [f"f{index}" for index in range(12)]
    deployed(trained(), feature_names=features, metadata={"dataset": "made"}).save(tmp_path)
    where = export_run(tmp_path, "onnx").folder
    session = onnxruntime.InferenceSession(where / "model.onnx")
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["class_names"]) == ["α", "b|c", "d", "e", "f"]
    assert json.loads(properties["feature_names"]) == features
    assert json.loads(properties["metadata"]) == {"dataset": "made"}
    assert properties["digest"] == json.loads((tmp_path / "model.json").read_text())["digest"]


@pytest.mark.parametrize("format", ["numpy", "torch"])
def test_a_folder_of_weights_is_a_model_folder_too(tmp_path: Path, format: str) -> None:
    model = deployed(trained(), normalize="row")
    model.save(tmp_path)
    where = export_run(tmp_path, format).folder
    np.testing.assert_array_equal(DeployedModel.load(where).logits(some_rows()), model.logits(some_rows()))
    assert (where / "model.json").read_bytes() == (tmp_path / "model.json").read_bytes()


ALONE = """
import builtins, sys
allowed = {allowed!r}
real = builtins.__import__
def guarded(name, *rest, **more):
    if name.partition(".")[0] in {forbidden!r} - allowed:
        raise ImportError(name + " was imported")
    return real(name, *rest, **more)
builtins.__import__ = guarded
import numpy as np
x = np.load("x.npy")
{code}
np.savez("found.npz", logits=logits, probabilities=probabilities)
heavy = {forbidden!r} - allowed
assert not heavy & {{name.partition(".")[0] for name in sys.modules}}, heavy & set(sys.modules)
"""
FORBIDDEN = {"gssc", "torch", "torch_geometric", "sklearn", "scipy", "safetensors", "onnx", "onnxruntime"}
CODE = {
    "numpy": (
        set[str](),
        "from predict import Predictor; m = Predictor(); logits, probabilities = m.logits(x), m.predict_proba(x)",
    ),
    "torch": (
        {"torch", "safetensors"},
        "import torch; from model import load; m = load(); x = torch.from_numpy(x)\n"
        "logits, probabilities = m(x).detach().numpy(), m.probabilities(x).detach().numpy()",
    ),
}


@pytest.mark.parametrize("format", CODE)
def test_the_folder_stands_on_its_own_in_a_fresh_process(tmp_path: Path, format: str) -> None:
    network, options = trained(), {"normalize": "row", "temperature": 1.7}
    deployed(network, **options).save(tmp_path / "run")
    where = tmp_path / "elsewhere"
    export_run(tmp_path / "run", format, out=where)
    shutil.rmtree(tmp_path / "run")
    np.save(where / "x.npy", some_rows())
    allowed, code = CODE[format]
    program = ALONE.format(allowed=allowed, forbidden=FORBIDDEN, code=code)
    done = subprocess.run([sys.executable, "-c", program], cwd=where, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    true_logits, true_probabilities = true_outputs(network, some_rows(), options)
    with np.load(where / "found.npz") as found:
        np.testing.assert_allclose(found["logits"], true_logits, **CLOSE)
        np.testing.assert_allclose(found["probabilities"], true_probabilities, **CLOSE)


def test_exporting_for_numpy_imports_no_torch(tmp_path: Path) -> None:
    deployed(trained()).save(tmp_path)
    code = (
        "import sys; from gssc.deploy.export import export_run; export_run(sys.argv[1], 'numpy'); "
        "assert not {'torch', 'scipy', 'onnx', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


def test_deploying_costs_a_fraction_of_importing_torch() -> None:
    """CPU seconds in fresh processes; a generous bound, since what disturbs torch once only makes it slower."""
    code = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def seconds(module: str) -> float:
        return float(subprocess.check_output([sys.executable, "-c", code.format(module)], env=environment, text=True))

    assert min(seconds("gssc.deploy") for _ in range(3)) < 0.5 * seconds("torch")


def test_loading_and_predicting_in_numpy_mode_imports_nothing_heavy(tmp_path: Path) -> None:
    deployed(trained(), normalize="row").save(tmp_path)
    code = (
        "import sys, numpy as np; from gssc.deploy import DeployedModel; model = DeployedModel.load(sys.argv[1]); "
        "model.predict_proba(np.ones((3, 12))); "
        "assert not {'torch', 'torch_geometric', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 5), max_size=30),
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    limit=st.integers(1, 12),
    normalize=st.sampled_from(["row", "none"]),
)
def test_numpy_blocks_of_sparse_rows_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], widths: list[int], limit: int, normalize: str
) -> None:
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((out, into)), rng.standard_normal(out)) for into, out in pairwise(widths)]
    model = DeployedModel(layers, [str(n) for n in range(widths[-1])], normalize=normalize)  # type: ignore[arg-type]
    where = tmp_path_factory.mktemp("run")
    model.save(where)
    indptr = np.cumsum([0, *lengths])
    indices, data = rng.integers(0, widths[0], indptr[-1]), rng.random(indptr[-1], dtype=np.float32)
    dense = np.zeros((len(lengths), widths[0]), dtype=np.float32)
    np.add.at(dense, (np.repeat(np.arange(len(lengths)), lengths), indices), data)  # repeated columns add up
    predictor = numpy_predictor.Predictor(where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_predictor, "BLOCK_ROWS", limit)
        for form in (dense, (data, indices, indptr)):
            found = predictor.logits(form)
            assert found.shape == (len(lengths), widths[-1])
            np.testing.assert_allclose(found, model.logits(dense), rtol=1e-4, atol=1e-4)
            assert predictor.predict(form).tolist() == found.argmax(axis=1).tolist()


def test_numpy_probabilities_survive_large_logits(tmp_path: Path) -> None:
    weights = np.array([[1e4], [-1e4]]), np.zeros(2)
    for task, expected in (("multiclass", [[1, 0], [0, 1]]), ("multilabel", [[1, 0], [0, 1]])):
        DeployedModel([weights], ["a", "b"], task=task).save(tmp_path / task)  # type: ignore[arg-type]
        predictor = numpy_predictor.Predictor(tmp_path / task)
        np.testing.assert_allclose(predictor.predict_proba(np.array([[1.0], [-1.0]])), expected)
    assert predictor.predict(np.array([[1.0], [-1.0]])).tolist() == [[1, 0], [0, 1]]


ONE = np.array([1.0])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 4)), r"the model takes \(rows, 12\)"),
        (np.zeros(12), r"the model takes \(rows, 12\)"),
        (sparse.csr_matrix((2, 4)), r"the model takes \(rows, 12\)"),
        (np.full((2, 12), np.nan), "row 0 has a NaN"),
        ((ONE, np.array([12]), np.array([0, 1])), "outside the model's 12 features"),
        ((ONE, np.array([-1]), np.array([0, 1])), "outside the model's 12 features"),
        ((ONE, np.array([1]), np.array([0, 2])), "must begin with 0 and end with"),
        ((np.ones(2), np.array([1, 2]), np.array([0, 3, 1, 2])), "must not decrease"),
    ],
)
def test_rows_the_numpy_predictor_refuses(tmp_path: Path, x: Any, message: str) -> None:
    deployed(trained()).save(tmp_path)
    with pytest.raises(ValueError, match=message):
        numpy_predictor.Predictor(tmp_path).logits(x)


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    deployed(trained()).save(tmp_path)
    content = (tmp_path / name).read_bytes()
    changed = content[:-1] + b"x" if name == "model.safetensors" else content.replace(b"multiclass", b"multilabel")
    (tmp_path / name).write_bytes(changed)
    with pytest.raises(ValueError, match="was changed"):
        numpy_predictor.Predictor(tmp_path)
    if name == "model.safetensors":
        with pytest.raises(ValueError, match="was changed"):
            torch_module.load(tmp_path)


def test_a_failed_export_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(trained()).save(tmp_path)
    first = export_run(tmp_path, "numpy").folder
    before = {path: path.read_bytes() for path in first.iterdir()}
    monkeypatch.setattr(folder, "TOLERANCE", -1.0)
    with pytest.raises(RuntimeError, match="differs from the model"):
        export_run(tmp_path, "numpy", overwrite=True)
    assert {path: path.read_bytes() for path in first.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export-numpy", "model.json", "model.safetensors"]


def test_overwrite_replaces_an_export_and_nothing_else(tmp_path: Path) -> None:
    deployed(trained()).save(tmp_path / "run")
    out = export_run(tmp_path / "run", "numpy").folder
    with pytest.raises(GsscError, match="exists already.*--overwrite"):
        export_run(tmp_path / "run", "onnx", out=out)
    export = export_run(tmp_path / "run", "onnx", out=out, overwrite=True)
    assert [path.name for path in export.files] == ["MODEL_CARD.md", "model.onnx", "model_sparse.onnx"]
    (out / "notes.txt").write_text("mine")
    with pytest.raises(GsscError, match="notes.txt in it is not from an export"):
        export_run(tmp_path / "run", "onnx", out=out, overwrite=True)
    with pytest.raises(GsscError, match="it has no MODEL_CARD.md"):
        export_run(tmp_path / "run", "onnx", out=bare(tmp_path), overwrite=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GsscError, match="it is not a folder"):
        export_run(tmp_path / "run", "onnx", out=tmp_path / "file", overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"


def bare(tmp_path: Path) -> Path:
    """A model folder that is no export."""
    deployed(trained()).save(tmp_path / "bare")
    return tmp_path / "bare"


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(trained()).save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(GsscError, match=r"onnx is not installed: pip install 'gssc\[export\]'"):
        export_run(tmp_path, "onnx")
    assert not (tmp_path / "export-onnx").exists()


def test_a_signal_right_after_the_folder_began_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def interrupted(path: Path, *args: Any, **options: Any) -> None:
        mkdir(path, *args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), folder.temporary_folder(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []

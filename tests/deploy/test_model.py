from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gssc.deploy import DeployedModel, store
from gssc.deploy import forward as forward_module
from gssc.deploy.activations import activations_of
from gssc.errors import GsscError


def random_model(widths: list[int], seed: int = 0, **options) -> DeployedModel:
    rng = np.random.default_rng(seed)
    layers = [
        (rng.standard_normal((out, into)).astype(np.float32), rng.standard_normal(out).astype(np.float32))
        for into, out in pairwise(widths)
    ]
    return DeployedModel(layers, class_names=[f"class {index}" for index in range(widths[-1])], **options)


BY_TORCH = {
    "relu": torch.relu,
    "leaky_relu": lambda h: torch.nn.functional.leaky_relu(h, 0.01),
    "gelu": torch.nn.functional.gelu,
    "asinh": torch.asinh,
    "standardize": lambda h: torch.nn.functional.layer_norm(h, h.shape[1:], eps=1e-5),
}


def by_torch(model: DeployedModel, x: np.ndarray) -> np.ndarray:
    """The same network, written down in torch and in double precision."""
    h = torch.from_numpy(np.asarray(x, dtype=np.float64))
    if model.normalize == "row":
        sums = h.abs().sum(dim=1, keepdim=True)
        h = torch.where(sums == 0, h, h / torch.where(sums == 0, torch.ones_like(sums), sums))
    for number, (weight, bias) in enumerate(model.layers):
        h = torch.nn.functional.linear(h, torch.from_numpy(weight).double(), torch.from_numpy(bias).double())
        if number + 1 < len(model.layers):
            h = BY_TORCH[activations_of(model.activation, len(model.layers) - 1)[number]](h)
    return h.numpy()


def counts(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return (rng.random((rows, columns)) < 0.3) * rng.integers(1, 5, (rows, columns)).astype(np.float32)


def test_one_row_by_hand() -> None:
    first = np.array([[1.0, -1.0], [0.5, 0.5]]), np.array([0.0, -1.0])
    second = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0.25, 0.0])
    model = DeployedModel([first, second], ["a", "b"], temperature=2.0)
    x = np.array([[3.0, 1.0]])  # hidden: relu(2, 1) = (2, 1)
    assert model.embed(x).tolist() == [[2.0, 1.0]]
    assert model.logits(x).tolist() == [[4.25, 1.0]]
    np.testing.assert_allclose(model.predict_proba(x)[0, 0], 1 / (1 + np.exp(-3.25 / 2)), rtol=1e-6)
    assert model.predict(x).tolist() == [0]


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "gelu"])
@pytest.mark.parametrize("normalize", ["row", "none"])
@pytest.mark.parametrize("widths", [[5, 3], [5, 13, 7], [5, 8, 16, 2, 3]])
@pytest.mark.parametrize("rows", [1, 7, 30, 4500])  # few, within a block, and over three of them
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_every_form_agrees_with_torch_in_double(
    monkeypatch: pytest.MonkeyPatch, activation: str, normalize: str, widths: list[int], rows: int, engine: str
) -> None:
    model = random_model(widths, activation=activation, normalize=normalize)
    x = counts(np.random.default_rng(1), rows, 5)
    x[1:2] = 0  # a node without any feature
    expected = by_torch(model, x)
    if engine == "numpy":
        monkeypatch.delitem(sys.modules, "torch")
    for form in (
        x,
        x.astype(np.float64),
        np.asfortranarray(x),
        sparse.csr_matrix(x),
        sparse.csr_array(x),
        sparse.coo_matrix(x),
    ):
        np.testing.assert_allclose(model.logits(form), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["standardize,leaky_relu", "asinh,leaky_relu"])
@pytest.mark.parametrize("rows", [1, 30, 4500])
def test_each_hidden_layer_may_have_an_activation_of_its_own(rows: int, activation: str) -> None:
    model = random_model([5, 8, 16, 3], activation=activation)
    x = counts(np.random.default_rng(1), rows, 5)
    np.testing.assert_allclose(model.logits(x), by_torch(model, x), rtol=1e-4, atol=1e-4)
    assert model.embed(x).shape == (rows, 16)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("scale", [1e-36, 1e-13, 1.0, 1e13, 1e36])
def test_normalised_rows_have_no_scale(monkeypatch: pytest.MonkeyPatch, scale: float, engine: str) -> None:
    weight = 1e4 * np.random.default_rng(0).standard_normal((7, 5))  # times a row of 1e36 it is out of bounds
    model = DeployedModel([(weight, np.zeros(7))], list("abcdefg"), normalize="row")
    x = counts(np.random.default_rng(1), 30, 5)
    scaled = x.copy()
    scaled[::2] *= np.float32(scale)  # some of the rows
    if engine == "numpy":
        monkeypatch.delitem(sys.modules, "torch")
    for form in (np.asarray, sparse.csr_matrix):
        np.testing.assert_allclose(model.logits(form(scaled)), by_torch(model, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("rows", [1, 2, 20])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_rows_whose_sums_leave_single_precision(monkeypatch: pytest.MonkeyPatch, engine: str, rows: int, form) -> None:
    model = DeployedModel([(np.eye(4), np.zeros(4))], list("abcd"), normalize="row")
    x = np.full((rows, 4), 3e38, dtype=np.float32)
    x[1:2, :3] = 0
    if engine == "numpy":
        monkeypatch.delitem(sys.modules, "torch")
    np.testing.assert_allclose(model.logits(form(x)), by_torch(model, x), rtol=1e-6)


def test_a_read_only_memory_map_is_fine(tmp_path: Path) -> None:
    model = random_model([5, 4, 3])
    x = counts(np.random.default_rng(3), 30, 5)
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(model.logits(np.load(tmp_path / "x.npy", mmap_mode="r")), model.logits(x))
    frozen = sparse.csr_matrix(x)
    for part in (frozen.data, frozen.indices, frozen.indptr):
        part.flags.writeable = False
    np.testing.assert_allclose(model.logits(frozen), model.logits(x), rtol=1e-5, atol=1e-5)


def test_features_are_never_changed() -> None:
    model = random_model([5, 4, 3], normalize="row")
    x = counts(np.random.default_rng(3), 30, 5)
    matrix = sparse.csr_matrix(x)
    before, data = x.copy(), matrix.data.copy()
    model.predict_proba(x)
    model.predict_proba(matrix)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(matrix.data, data)


def test_all_zero_and_no_rows() -> None:
    model = random_model([5, 4, 3], normalize="row")
    nothing = sparse.csr_matrix((4, 5), dtype=np.float32)
    np.testing.assert_allclose(model.logits(nothing), by_torch(model, np.zeros((4, 5))), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.logits(nothing[:1]), model.logits(nothing)[:1], rtol=1e-6)
    np.testing.assert_allclose(model.logits(np.zeros((1, 5))), model.logits(nothing)[:1], rtol=1e-6)
    assert model.predict(np.empty((0, 5))).shape == (0,)


def test_a_scipy_without_its_inner_routine_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model([5, 13, 7], normalize="row")
    x = sparse.csr_matrix(counts(np.random.default_rng(3), 30, 5))
    monkeypatch.delitem(sys.modules, "torch")
    expected = model.logits(x)
    monkeypatch.setitem(sys.modules, "scipy.sparse._sparsetools", None)
    np.testing.assert_allclose(model.logits(x), expected, rtol=1e-5, atol=1e-6)


@given(
    rows=st.integers(1, 40),
    widths=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    seed=st.integers(0, 99),
    block=st.integers(1, 50),
)
@settings(deadline=None)
def test_the_size_of_a_block_changes_nothing(rows: int, widths: list[int], seed: int, block: int) -> None:
    model = random_model(widths, seed, activation="leaky_relu", normalize="row")
    x = counts(np.random.default_rng(seed), rows, widths[0])
    whole = model.logits(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_module, "BLOCK_ROWS", block)
        np.testing.assert_allclose(model.logits(x), whole, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(model.logits(sparse.csr_matrix(x)), whole, rtol=1e-4, atol=1e-4)


def test_threads_do_not_share_their_buffers() -> None:
    model = random_model([20, 64, 64, 3])
    tables = [np.random.default_rng(seed).random((3000, 20), dtype=np.float32) for seed in range(8)]
    expected = [model.logits(x) for x in tables]
    with ThreadPoolExecutor(4) as pool:
        for found, alone in zip(pool.map(model.logits, tables * 4), expected * 4, strict=True):
            np.testing.assert_array_equal(found, alone)


def test_probabilities_survive_large_logits() -> None:
    weights = np.array([[1e4], [-1e4]], dtype=np.float32), np.zeros(2)
    x = np.array([[1.0], [-1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(DeployedModel([weights], ["a", "b"]).predict_proba(x), [[1, 0], [0, 1]])
        tasks = DeployedModel([weights], ["a", "b"], task="multilabel")
        np.testing.assert_allclose(tasks.predict_proba(x), [[1, 0], [0, 1]])
    assert tasks.predict(x).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 4)), "rows have 4 features, but the model was trained on 3: give the columns it was trained on"),
        (sparse.csr_matrix((2, 4)), "rows have 4 features, but the model was trained on 3"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([["a", "b", "c"]]), "must be numbers"),
        (np.array([[0, 0, 0], [0, np.nan, 0]]), "row 1 has a NaN"),
        (np.array([[0, 1e300, 0]]), "row 0 has a NaN, infinite or far too large"),
    ],
)
def test_wrong_rows(model: DeployedModel, x: object, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        model.logits(x)


W, B = np.ones((2, 3)), np.zeros(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": []}, "at least one layer"),
        ({"layers": [(W, np.zeros(3))]}, "layer 0 has weight"),
        ({"layers": [(W, B), (W, B)]}, "layer 1 takes 3 inputs, but the one before gives 2"),
        ({"layers": [(W * np.nan, B)]}, "NaN"),
        ({"class_names": ["a"]}, "1 names for 2 outputs"),
        ({"class_names": ["a", "a"]}, "twice"),
        ({"feature_names": ["a"]}, "1 names for 3 features"),
        ({"activation": "tanh"}, "one of relu, leaky_relu"),
        ({"activation": "gelu,relu,relu"}, "3 names for"),
        ({"normalize": "column"}, "one of row, none"),
        ({"task": "regression"}, "one of multiclass, multilabel"),
        ({"temperature": 0.0}, "positive"),
    ],
)
def test_what_cannot_be_a_model(arguments: dict, message: str) -> None:
    with pytest.raises(GsscError, match=message):
        DeployedModel(**{"layers": [(W, B)], "class_names": ["a", "b"], **arguments})


def test_embedding_needs_a_hidden_layer() -> None:
    with pytest.raises(GsscError, match="no hidden layer"):
        DeployedModel([(W, B)], ["a", "b"]).embed(np.ones((1, 3)))


def test_save_and_load_are_exact(tmp_path: Path) -> None:
    model = random_model(
        [5, 4, 3],
        activation="leaky_relu",
        normalize="row",
        temperature=1.7,
        feature_names=["α", "b", "c", "d", "e"],
        metadata={"dataset": "cora", "seed": 3, "sizes": (1, 2)},
    )
    model.save(tmp_path / "deep" / "run")
    again = DeployedModel.load(tmp_path / "deep" / "run")
    for (weight, bias), (weight_again, bias_again) in zip(model.layers, again.layers, strict=True):
        np.testing.assert_array_equal(weight, weight_again)
        np.testing.assert_array_equal(bias, bias_again)
    for name in ("class_names", "feature_names", "activation", "normalize", "task", "temperature"):
        assert getattr(again, name) == getattr(model, name)
    assert again.metadata == {"dataset": "cora", "seed": 3, "sizes": [1, 2]}
    assert sorted(path.name for path in (tmp_path / "deep" / "run").iterdir()) == ["model.json", "model.safetensors"]


def test_metadata_json_cannot_hold(model: DeployedModel, tmp_path: Path) -> None:
    model.metadata = {"score": float("nan")}
    with pytest.raises(GsscError, match="does not fit into JSON"):
        model.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: flip_a_byte(run / "model.safetensors"), "digest differs"),
        (lambda run: (run / "model.safetensors").write_bytes(b""), "digest differs"),
        (lambda run: (run / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda run: (run / "model.json").unlink(), "has no model.json"),
        (lambda run: (run / "model.json").write_text("{"), "is not JSON"),
        (lambda run: (run / "model.json").write_bytes(b"\xff\xfe\x00"), "is not JSON"),
        (lambda run: (run / "model.json").write_text("[]"), "is not a JSON object"),
        (lambda run: (run / "model.json").write_text("{}"), "does not describe a gssc model"),
        (lambda run: (run / "model.json").write_text('{"format": "gssc-molecules-2"}'), "takes SMILES"),
        (lambda run: edit(run / "model.json", class_names=["dog", "cat"]), "was changed after it was written"),
        (lambda run: edit(run / "model.json", temperature=2), "was changed after it was written"),
        (lambda run: edit(run / "model.json", digest=None), "was changed after it was written"),
        (lambda run: edit(run / "model.json", format_version=2), "format version 2, this gssc reads 1"),
    ],
)
def test_a_damaged_folder_is_refused(model_folder: Path, damage, message: str) -> None:
    damage(model_folder)
    with pytest.raises(GsscError, match=message):
        DeployedModel.load(model_folder)


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(deadline=None)
def test_any_flipped_bit_is_noticed(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("run")
    random_model([3, 4, 2]).save(folder)
    path = sorted(folder.iterdir())[position % 2]
    content = bytearray(path.read_bytes())
    content[position // 2 % len(content)] ^= 1 << bit
    path.write_bytes(bytes(content))
    before = json.loads((folder / "model.json").read_bytes()) if path.suffix == ".safetensors" else None
    try:
        again = DeployedModel.load(folder)
    except GsscError:
        return
    # Only white space between JSON tokens may differ without a difference.
    assert before is None
    np.testing.assert_array_equal(again.logits(np.ones((1, 3))), random_model([3, 4, 2]).logits(np.ones((1, 3))))


def forge(folder: Path, **changes: object) -> None:
    """Change a description and recompute its digest, as an attacker would."""
    description = {**json.loads((folder / "model.json").read_text()), **changes}
    description = {name: value for name, value in description.items() if value is not ... and name != "digest"}
    (folder / "model.json").write_text(json.dumps({**description, "digest": store._digest(description)}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": [3, 4, 4, 2]}, "does not hold the 3 layers"),
        ({"widths": [9, 4, 2]}, "sizes"),
        ({"widths": [3.0, 4, 2]}, "'widths'"),
        ({"widths": ["a", {}, 2]}, "'widths'"),
        ({"class_names": ...}, "'class_names'"),
        ({"class_names": [["a"], "b"]}, "'class_names'"),
        ({"class_names": ["a", "\ud800"]}, "is not JSON"),
        ({"feature_names": [1, 2, 3]}, "'feature_names'"),
        ({"feature_names": ...}, "'feature_names'"),
        ({"temperature": True}, "'temperature'"),
        ({"temperature": 10**400}, "'temperature'"),
        ({"temperature": math.nan}, "it holds NaN"),
        ({"metadata": {"test_accuracy": math.inf}}, "it holds Infinity"),
        ({"metadata": None}, "'metadata'"),
        ({"activation": "tanh"}, "activation"),
        ({"weights_sha256": 3}, "'weights_sha256'"),
    ],
)
def test_a_crafted_description_is_refused_in_one_line(model_folder: Path, changes: dict, message: str) -> None:
    forge(model_folder, **changes)
    with pytest.raises(GsscError, match=message) as caught:
        DeployedModel.load(model_folder)
    assert "\n" not in str(caught.value)


def test_a_description_nested_too_deeply_is_refused(model_folder: Path) -> None:
    (model_folder / "model.json").write_text("[" * 100_000)
    with pytest.raises(GsscError, match="nested too deeply|is not JSON"):
        DeployedModel.load(model_folder)


@pytest.mark.parametrize(
    "tensors",
    [
        {"layers.0.weight": np.float32(1), "layers.0.bias": np.float32(1)},
        {"layers.0.weight": np.ones((2, 3), np.float32), "layers.0.bias": np.ones((2, 1), np.float32)},
        {"layers.0.weight": np.ones((2, 3)), "layers.0.bias": np.ones(2)},
    ],
    ids=["no dimensions", "two-dimensional bias", "float64"],
)
def test_crafted_weights_are_refused(model_folder: Path, tensors: dict[str, np.ndarray]) -> None:
    weights = safetensors.numpy.save({name: np.asarray(value) for name, value in tensors.items()})
    (model_folder / "model.safetensors").write_bytes(weights)
    forge(model_folder, widths=[3, 2], weights_sha256=hashlib.sha256(weights).hexdigest())
    with pytest.raises(GsscError, match="model.safetensors"):
        DeployedModel.load(model_folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_pipe_in_a_model_folder_is_refused_rather_than_waited_for(model_folder: Path, name: str) -> None:
    (model_folder / name).unlink()
    os.mkfifo(model_folder / name)
    with pytest.raises(GsscError, match="it is a pipe or a device"):
        DeployedModel.load(model_folder)


def test_rows_around_zero_are_divided_by_their_absolute_sum() -> None:
    identity = DeployedModel([(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))], ["a", "b"], normalize="row")
    rows = np.array([[1.0, -3.0], [0.0, 0.0], [-2.0, 2.0]])
    expected = np.array([[0.25, -0.75], [0.0, 0.0], [-0.5, 0.5]], dtype=np.float32)
    assert np.array_equal(identity.logits(rows), expected)
    assert np.array_equal(identity.logits(sparse.csr_matrix(rows)), expected)

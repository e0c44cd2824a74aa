"""The model as ONNX: one Gemm for each layer, row normalisation before them, probabilities after them.

``model.onnx`` takes dense rows. ``model_sparse.onnx`` takes the filled entries of each row, as columns and values
padded to one length: ONNX Runtime multiplies no sparse matrices, and its ScatterND with repeated indices was found
unsafe with several threads (microsoft/onnxruntime issue 18048), so the first product gathers rows of the weight.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gssc import __version__
from gssc.deploy.activations import LEAKY_SLOPE, STANDARDIZE_EPS, activations_of
from gssc.deploy.export.run_model import RunModel
from gssc.deploy.model import DeployedModel
from gssc.extras import require

# Understood by ONNX Runtime 1.13 (2022) and later.
OPSET = 17
IR_VERSION = 8
DENSE, SPARSE = "model.onnx", "model_sparse.onnx"

USE = """\
Needs `onnxruntime` (or any program that reads ONNX, opset 17), but not gssc.

```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
logits, probabilities = session.run(["logits", "probabilities"], {"x": rows})  # rows: float32 [n, features]
session.get_modelmeta().custom_metadata_map["class_names"]  # JSON
```

`model_sparse.onnx` gives the same from the filled entries of each row, `columns` (int64) and `values` (float32), both
[n, entries], at least one entry wide; shorter rows are padded with value 0 in column 0. From a SciPy CSR matrix:

```python
import numpy as np

def padded(matrix):
    lengths = np.diff(matrix.indptr)
    filled = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    columns, values = np.zeros(filled.shape, np.int64), np.zeros(filled.shape, np.float32)
    columns[filled], values[filled] = matrix.indices, matrix.data
    return {"columns": columns, "values": values}

session = onnxruntime.InferenceSession("model_sparse.onnx")
logits, probabilities = session.run(["logits", "probabilities"], padded(matrix))
```

NaN and infinite features are not refused here; the output for such a row is meaningless.
"""


def write(run_model: RunModel, folder: Path) -> None:
    """Write and check both graphs."""
    onnx = require("onnx", extra="export")
    for name, graph in ((DENSE, dense_graph(run_model.model)), (SPARSE, sparse_graph(run_model.model))):
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="gssc",
            producer_version=__version__,
        )
        onnx.helper.set_model_props(model, properties(run_model))
        onnx.checker.check_model(model, full_check=True)
        (folder / name).write_bytes(model.SerializeToString())


def outputs(folder: Path, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and probabilities of the dense graph, by the reference evaluator of onnx."""
    evaluator = require("onnx.reference", extra="export").ReferenceEvaluator(str(folder / DENSE))
    logits, probabilities = evaluator.run(["logits", "probabilities"], {"x": rows})
    return logits, probabilities


def properties(run_model: RunModel) -> dict[str, str]:
    """Return metadata for the file; values other than plain text and numbers as JSON."""
    model = run_model.model
    return {
        "class_names": json.dumps(model.class_names),
        "feature_names": json.dumps(model.feature_names),
        "task": model.task,
        "normalize": model.normalize,
        "temperature": repr(float(model.temperature)),
        "metadata": json.dumps(model.metadata),
        "digest": run_model.digest,
    }


class _Nodes:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        self.onnx = require("onnx", extra="export")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Append a node and return the name of its output."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], name=f"make_{output}", **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        """Append a constant and return its name."""
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, name: str, kind: str, shape: list[str | int]) -> Any:
        """Return an input or output; sizes that are names are free."""
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape)

    def normalized(self, values: str, model: DeployedModel) -> str:
        """Divide each row by the sum of its absolute values; a row of zeros stays."""
        if model.normalize == "none":
            return values
        sums = self.add("ReduceSum", [self.add("Abs", [values], "sizes"), self.constant("last_axis", [1])], "sums")
        empty = self.add("Equal", [sums, self.constant("zero", np.float32(0))], "empty")
        divisors = self.add("Where", [empty, self.constant("one", np.float32(1)), sums], "divisors")
        return self.add("Div", [values, divisors], "normalized")

    def activated(self, hidden: str, number: int, model: DeployedModel) -> str:
        """Return the activation after layer ``number``."""
        name, output = activations_of(model.activation, len(model.layers) - 1)[number], f"activated_{number}"
        if name == "leaky_relu":
            return self.add("LeakyRelu", [hidden], output, alpha=LEAKY_SLOPE)
        if name == "asinh":
            return self.add("Asinh", [hidden], output)
        if name == "standardize":
            ones = self.constant(f"ones_{number}", np.ones(model.widths[number + 1], dtype=np.float32))
            return self.add("LayerNormalization", [hidden, ones], output, axis=1, epsilon=STANDARDIZE_EPS)
        if name == "gelu":
            half = self.constant(f"half_{number}", np.float32(0.5))
            shrunk = self.add(
                "Mul", [hidden, self.constant(f"root_{number}", np.float32(0.5**0.5))], f"shrunk_{number}"
            )
            halved = self.add("Mul", [self.add("Erf", [shrunk], f"erf_{number}"), half], f"halved_{number}")
            return self.add("Mul", [hidden, self.add("Add", [halved, half], f"gate_{number}")], output)
        return self.add("Relu", [hidden], output)

    def layers(self, hidden: str, model: DeployedModel, first: int) -> None:
        """Add the layers from ``first`` on, each a product with its weight [out, in] and bias."""
        for number, (weight, bias) in enumerate(model.layers[first:], start=first):
            parts = [self.constant(f"weight_{number}", weight), self.constant(f"bias_{number}", bias)]
            last = number == len(model.layers) - 1
            hidden = self.add("Gemm", [hidden, *parts], "logits" if last else f"hidden_{number}", transB=1)
            hidden = hidden if last else self.activated(hidden, number, model)

    def graph(self, name: str, inputs: list[Any], model: DeployedModel) -> Any:
        """Close the graph with its probabilities."""
        scaled = "logits"
        if model.temperature != 1:
            scaled = self.add("Div", [scaled, self.constant("temperature", np.float32(model.temperature))], "scaled")
        if model.task == "multiclass":
            self.add("Softmax", [scaled], "probabilities", axis=1)
        else:
            self.add("Sigmoid", [scaled], "probabilities")
        results = [self.input(output, "FLOAT", ["rows", model.widths[-1]]) for output in ("logits", "probabilities")]
        return self.onnx.helper.make_graph(self.nodes, name, inputs, results, self.constants)


def dense_graph(model: DeployedModel) -> Any:
    """Return the graph that maps ``x``, float [rows, features], to logits and probabilities."""
    nodes = _Nodes()
    rows = nodes.input("x", "FLOAT", ["rows", model.widths[0]])
    nodes.layers(nodes.normalized("x", model), model, first=0)
    return nodes.graph("mlp", [rows], model)


def sparse_graph(model: DeployedModel) -> Any:
    """Return the graph with inputs ``columns`` (int64) and ``values`` (float), both [rows, entries]; same outputs."""
    nodes = _Nodes()
    inputs = [nodes.input("columns", "INT64", ["rows", "entries"]), nodes.input("values", "FLOAT", ["rows", "entries"])]
    weight, bias = model.layers[0]
    single = len(model.layers) == 1
    axis = nodes.constant("middle_axis", [1])
    factors = nodes.add("Unsqueeze", [nodes.normalized("values", model), axis], "factors")
    gathered = nodes.add("Gather", [nodes.constant("weight_0", np.ascontiguousarray(weight.T)), "columns"], "gathered")
    product = nodes.add("Squeeze", [nodes.add("MatMul", [factors, gathered], "stacked"), axis], "product")
    hidden = nodes.add("Add", [product, nodes.constant("bias_0", bias)], "logits" if single else "hidden_0")
    if not single:
        nodes.layers(nodes.activated(hidden, 0, model), model, first=1)
    return nodes.graph("mlp_of_sparse_rows", inputs, model)

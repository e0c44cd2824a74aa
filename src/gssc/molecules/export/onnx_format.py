"""The model as ONNX: atom rows and a membership matrix in, predictions out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gssc import __version__
from gssc.deploy.forward import LEAKY_SLOPE
from gssc.extras import require
from gssc.molecules.atom_rows import AtomRows
from gssc.molecules.deployed import DeployedMolecules, Layers
from gssc.molecules.export.numpy_format import write_row_modules
from gssc.molecules.featurize import featurize

# Understood by ONNX Runtime 1.13 (2022) and later.
OPSET = 17
IR_VERSION = 8

USE = """\
Needs `onnxruntime` (or any program that reads ONNX, opset 17). `rows` [atoms, columns] are the one-hot rows of all
atoms and `members` [molecules, atoms] is one where an atom belongs to a molecule, both float32.

```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(predictions,) = session.run(["predictions"], {"rows": rows, "members": members})  # [molecules, targets]
session.get_modelmeta().custom_metadata_map["target_names"]  # JSON
```

`fields.py` and `environments.py` define the columns: column `ATOM_OFFSETS[k] + ATOM_FIELDS[k].code(value)` is one for
each of the nine fields k of an RDKit atom. If `row_format` in the metadata has a radius r above 0, column
`ATOM_WIDTH + (step - 1) * columns + identifier % columns` is one for each step from 1 to r, with the identifiers of
`environments`. The export in the format numpy does all this.
"""


def write(model: DeployedMolecules, folder: Path) -> None:
    """Write and check the graph."""
    onnx = require("onnx", extra="export")
    made = onnx.helper.make_model(
        graph(model),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="gssc",
        producer_version=__version__,
    )
    about = model.description()
    onnx.helper.set_model_props(made, {name: json.dumps(about[name]) for name in ("target_names", "row_format")})
    onnx.checker.check_model(made, full_check=True)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    write_row_modules(folder)


def outputs(folder: Path, smiles: Sequence[str], model: DeployedMolecules) -> np.ndarray:
    """Return predictions by the reference evaluator of the onnx package."""
    molecules = featurize(smiles)
    found = AtomRows(molecules, model.row_format)
    rows = found.matrix[found.of_atom].toarray().astype(np.float32)
    members = np.zeros((len(molecules), len(rows)), dtype=np.float32)
    members[molecules.molecule_of_atom, np.arange(len(rows))] = 1
    evaluator = require("onnx.reference", extra="export").ReferenceEvaluator(str(folder / "model.onnx"))
    return np.asarray(evaluator.run(["predictions"], {"rows": rows, "members": members})[0])


def graph(model: DeployedMolecules) -> Any:
    """Return the ONNX graph of all members and their mean."""
    onnx = require("onnx", extra="export")
    nodes: list[Any] = []
    constants: list[Any] = []

    def add(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(onnx.helper.make_node(operator, inputs, [output], name=f"make_{output}", **attributes))
        return output

    def constant(name: str, value: Any) -> str:
        constants.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def layers(hidden: str, parts: Layers, name: str, **activation: Any) -> str:
        for place, (weight, bias) in enumerate(parts):
            given = [constant(f"{name}_weight_{place}", np.ascontiguousarray(weight, np.float32))]
            given.append(constant(f"{name}_bias_{place}", np.ascontiguousarray(bias, np.float32)))
            hidden = add("Gemm", [hidden, *given], f"{name}_{place}", transB=1)
            if place < len(parts) - 1:
                operator = "LeakyRelu" if activation else "Relu"
                hidden = add(operator, [hidden], f"{name}_active_{place}", **activation)
        return hidden

    sizes = add("ReduceSum", ["members", constant("last_axis", [1])], "sizes", keepdims=1)
    logits = []
    for number, (atoms, readout) in enumerate(model.members):
        embeddings = layers("rows", atoms, f"atoms_{number}", alpha=LEAKY_SLOPE)
        total = add("MatMul", ["members", embeddings], f"total_{number}")
        pooled = [add("Div", [total, sizes], f"mean_{number}"), *([total] if model.use_sum else [])]
        pooled += [add("Log", [sizes], f"size_{number}")] if model.use_size else []
        logits.append(layers(add("Concat", pooled, f"pooled_{number}", axis=1), readout, f"readout_{number}"))
    mean = add("Mean", logits, "logits")
    if model.mean is not None and model.scale is not None:
        scaled = add("Mul", [mean, constant("scale", np.asarray(model.scale, np.float32))], "scaled")
        add("Add", [scaled, constant("mean", np.asarray(model.mean, np.float32))], "predictions")
    else:
        add("Sigmoid", [mean], "predictions")
    kind = onnx.TensorProto.FLOAT
    inputs = [
        onnx.helper.make_tensor_value_info("rows", kind, ["atoms", model.row_format.width]),
        onnx.helper.make_tensor_value_info("members", kind, ["molecules", "atoms"]),
    ]
    results = [onnx.helper.make_tensor_value_info("predictions", kind, ["molecules", len(model.target_names)])]
    return onnx.helper.make_graph(nodes, "molecules", inputs, results, constants)

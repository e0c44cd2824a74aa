"""Requests and answers of the API in OpenAPI: numbers, widths and names are the served model's own."""

from __future__ import annotations

from typing import Any

from gssc.deploy.model import DeployedModel
from gssc.serve.answers import CONTENT_TYPES
from gssc.serve.json_rows import LARGEST
from gssc.serve.limits import Limits
from gssc.serve.metrics import CONTENT_TYPE as METRICS_TYPE

Schema = dict[str, Any]
ERROR: Schema = {
    "type": "object",
    "properties": {"detail": {"type": "string", "description": "what is wrong, and where"}},
    "required": ["detail"],
}
_REFUSALS = {
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large or has too many rows.",
    415: "Files of this type cannot be read.",
    422: "A number, row or column is invalid; the message names it.",
    503: "The server is at capacity, or the request ran out of time; see Retry-After.",
}


def _found(description: str, schema: Schema, kind: str = "application/json") -> dict[int | str, Schema]:
    return {200: {"description": description, "content": {kind: {"schema": schema}}}}


def refusals(*statuses: int) -> dict[int | str, Schema]:
    """Return the error answers of an operation, by status."""
    content = {"application/json": {"schema": ERROR}}
    found: dict[int | str, Schema] = {
        status: {"description": _REFUSALS[status], "content": content} for status in statuses
    }
    if 503 in found:
        found[503] = {**found[503], "headers": {"Retry-After": {"schema": {"type": "string"}}}}
    return found


def of_predict(model: DeployedModel, limits: Limits) -> Schema:
    """Return the description of ``POST /predict``, as arguments of its route."""
    return {
        "summary": "Classify rows",
        "responses": {**_found("Predictions", predictions(model)), **refusals(408, 413, 422, 503)},
        "openapi_extra": {"requestBody": rows_body(model, limits)},
    }


def of_predict_file(model: DeployedModel) -> Schema:
    """Return the description of ``POST /predict/file``."""
    found = _found("Predictions", predictions(model, ids=True))
    for kind in ("text/csv", CONTENT_TYPES["parquet"]):
        found[200]["content"][kind] = {"schema": {"type": "string", "format": "binary"}}
    return {
        "summary": "Classify the rows of a table",
        "responses": {**found, **refusals(408, 413, 415, 422, 503)},
        "openapi_extra": {"requestBody": file_body()},
    }


def rows_body(model: DeployedModel, limits: Limits) -> Schema:
    """Return the body of ``POST /predict``."""
    width = model.widths[0]
    number = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    rows = {"type": "array", "minItems": 1, "maxItems": limits.max_rows}
    index = {"type": "integer", "minimum": 0, "maximum": width - 1}
    dense = _object(
        "DenseRows",
        rows={
            **rows,
            "items": {"type": "array", "items": number, "minItems": width, "maxItems": width},
            "description": f"one list of {width} numbers per row, in the order of the model's features",
        },
    )
    sparse = _object(
        "SparseRows",
        indices={
            **rows,
            "items": {"type": "array", "items": index, "maxItems": width, "uniqueItems": True},
            "description": "of each row, the columns that are not zero, counted from 0",
        },
        values={
            **rows,
            "items": {"type": "array", "items": number, "maxItems": width},
            "description": "of each row, the numbers in these columns, one per index",
        },
    )
    examples = {
        "dense": {"summary": "one dense row", "value": {"rows": [[0.0] * (width - 1) + [1.0]]}},
        "sparse": {
            "summary": "two sparse rows, the second all zeros",
            "value": {"indices": [[width - 1], []], "values": [[1.0], []]},
        },
    }
    if width > 32:  # a thousand zeros would not help a reader
        del examples["dense"]
    bodies = [dense, sparse]
    if model.feature_names is not None:
        names = model.feature_names
        record = {"type": "object", "properties": dict.fromkeys(names, number), "required": names}
        description = "one object per row, with a number for every feature by its name; other fields are ignored"
        bodies.append(_object("NamedRows", rows={**rows, "items": record, "description": description}))
        if width <= 32:
            one = dict.fromkeys(names, 0.0) | {names[-1]: 1.0}
            examples["named"] = {"summary": "one row by the names of its features", "value": {"rows": [one]}}
    content = {"application/json": {"schema": {"oneOf": bodies}, "examples": examples}}
    return {"required": True, "content": content}


def file_body() -> Schema:
    """Return the body of ``POST /predict/file``."""
    binary = {"type": "string", "format": "binary"}
    form = {"type": "object", "properties": {"file": binary}, "required": ["file"]}
    kinds = ("text/csv", "text/tab-separated-values", CONTENT_TYPES["parquet"])
    content = {kind: {"schema": binary} for kind in kinds}
    return {"required": True, "content": {**content, "multipart/form-data": {"schema": form}}}


def predictions(model: DeployedModel, ids: bool = False) -> Schema:
    """Return the JSON answer of both predicting operations."""
    one_class = {"type": "integer", "minimum": 0, "maximum": model.widths[-1] - 1}
    several = {"type": "array", "items": one_class}
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    fields: dict[str, Schema] = {
        "model": {"type": "string", "description": "digest of the model that answered"},
        "class_names": {"type": "array", "items": {"type": "string"}},
        "classes": {
            "type": "array",
            "items": one_class if model.task == "multiclass" else several,
            "description": "of each row, the number of the likeliest class"
            if model.task == "multiclass"
            else "of each row, the numbers of the classes with a probability of at least one half",
        },
        "probabilities": {
            "type": "array",
            "items": {
                "type": "array",
                "items": probability,
                "minItems": model.widths[-1],
                "maxItems": model.widths[-1],
            },
            "description": "of each row, one probability per class, in the order of class_names",
        },
    }
    if ids:
        fields["ids"] = {
            "type": ["array", "null"],
            "items": {"type": ["integer", "string"]},
            "description": "of each row, what the table's id column holds, if it has one",
        }
    return _object("TablePredictions" if ids else "Predictions", **fields)


def card(model: DeployedModel, model_id: str, limits: Limits, text: str) -> Schema:
    """Return the answer of ``GET /model``: what the model is, what it takes, and the limits of requests."""
    return {
        "model": model_id,
        "task": model.task,
        "features": model.widths[0],
        "feature_names": model.feature_names,
        "class_names": model.class_names,
        "widths": model.widths,
        "activation": model.activation,
        "normalize": model.normalize,
        "temperature": model.temperature,
        "parameters": sum(weight.size + bias.size for weight, bias in model.layers),
        "metadata": model.metadata,
        "card": text,
        "limits": {"max_rows": limits.max_rows, "max_body_bytes": limits.max_body, "timeout": limits.timeout},
    }


CARD: Schema = {
    "type": "object",
    "title": "ModelCard",
    "properties": {
        "model": {"type": "string"},
        "task": {"enum": ["multiclass", "multilabel"]},
        "features": {"type": "integer"},
        "feature_names": {"type": ["array", "null"], "items": {"type": "string"}},
        "class_names": {"type": "array", "items": {"type": "string"}},
        "widths": {"type": "array", "items": {"type": "integer"}},
        "card": {"type": "string", "description": "the model card as Markdown"},
        "activation": {"type": "string", "description": "one name, or one per hidden layer"},
        "normalize": {"enum": ["row", "none"]},
        "temperature": {"type": "number"},
        "parameters": {"type": "integer"},
        "metadata": {"type": "object"},
        "limits": {"type": "object"},
    },
    "required": ["model", "task", "features", "class_names", "limits"],
}


OF_MODEL: Schema = {"summary": "What is served", "responses": _found("Model card", CARD)}
OF_METRICS: Schema = {
    "summary": "Counters for Prometheus",
    "responses": _found("Counters", {"type": "string"}, METRICS_TYPE),
}


def _object(title: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "title": title,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

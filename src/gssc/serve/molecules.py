"""The app of a model for molecules: SMILES in, predictions out, and a drawing by RDKit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import numpy as np
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from gssc import __version__
from gssc.extras import require
from gssc.molecules.deployed import DeployedMolecules
from gssc.molecules.smiles import parse, reason_against
from gssc.serve.app import errors_in_one_sentence, html_page
from gssc.serve.guard import Guard
from gssc.serve.limits import Limits, Refused
from gssc.serve.metrics import CONTENT_TYPE as METRICS_TYPE
from gssc.serve.metrics import Metrics

LONGEST_SMILES = 2000  # characters: the time that RDKit takes grows with them
MOST_ATOMS_DRAWN = 200
AT_ONCE = 2  # requests that are computed at the same time
SIZE = 320  # pixels of a drawing


class SmilesRequest(BaseModel):
    """The body of a request."""

    smiles: list[str] = Field(min_length=1, description="one SMILES string per molecule")


def create_molecule_app(
    model: DeployedMolecules,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Iterable[str] = (),
) -> Guard:
    """Return the API of one model, ready for any ASGI server.

    Args:
        model: the model that predicts.
        limits: bounds of requests; ``max_rows`` counts molecules.
        token: the token that clients must send as ``Authorization: Bearer``; if left out, anyone may send requests.
        hosts: without a token, host names that clients may use, besides localhost and numeric addresses.
    """
    limits, metrics = limits or Limits(), Metrics()
    room = asyncio.Semaphore(AT_ONCE)
    kind = "probability" if model.mean is None else "value"
    app = FastAPI(title="gssc molecules", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    errors_in_one_sentence(app)

    @app.post("/predict", summary="Predict the targets of molecules")
    async def predict(body: SmilesRequest) -> Response:
        """A string that is not a molecule gets null and the reason; the others are predicted anyway."""
        if len(body.smiles) > limits.max_rows:
            raise Refused(413, f"{len(body.smiles)} molecules; at most {limits.max_rows} in one request")
        async with room:
            found = await asyncio.to_thread(answers, model, body.smiles)
        metrics.computed(1, len(body.smiles))
        return JSONResponse({"targets": list(model.target_names), "kind": kind, "predictions": found})

    @app.get("/draw", summary="A molecule as SVG", response_class=Response)
    async def draw(smiles: str) -> Response:
        """Drawn by RDKit."""
        async with room:
            text = await asyncio.to_thread(drawing, smiles)
        return Response(text, media_type="image/svg+xml", headers={"x-content-type-options": "nosniff"})

    @app.get("/model", summary="What is served")
    async def describe() -> dict[str, Any]:
        """Targets, the radius of environments in atom rows, the most molecules per request."""
        about = {"targets": list(model.target_names), "kind": kind, "radius": model.row_format.radius}
        return {**about, "max_rows": limits.max_rows}

    @app.get("/health", summary="Whether the server answers")
    async def health() -> dict[str, str]:
        """Needs no token."""
        return {"status": "ok"}

    @app.get("/metrics", summary="Counters for Prometheus", response_class=Response)
    async def count() -> Response:
        """Requests, latencies, molecules, errors, memory."""
        return Response(metrics.text(), headers={"content-type": METRICS_TYPE})

    for path, page in (("/", "molecules.html"), ("/docs", "docs.html")):
        app.add_api_route(path, html_page(page), methods=["GET", "HEAD"], include_in_schema=False)
    return Guard(app, limits, metrics, token, hosts)


def answers(model: DeployedMolecules, smiles: list[str]) -> list[dict[str, Any]]:
    """Return one answer per SMILES string, in order: its values, or null and the reason."""
    reasons = [refusal(text) for text in smiles]
    good = [text for text, reason in zip(smiles, reasons, strict=True) if reason is None]
    values = iter(model.predict_smiles(good) if good else np.empty((0, 0)))
    return [
        {"smiles": text, "values": None, "reason": reason}
        if reason is not None
        else {"smiles": text, "values": [float(value) for value in next(values)]}
        for text, reason in zip(smiles, reasons, strict=True)
    ]


def refusal(text: str) -> str | None:
    """Return why a SMILES string is refused; None if it is a molecule."""
    if len(text) > LONGEST_SMILES:
        return f"{len(text):,} characters; at most {LONGEST_SMILES:,}"
    return reason_against(text)


def drawing(smiles: str) -> str:
    """Return a molecule as SVG. Raises Refused if it is not one or is too large to draw."""
    if (reason := refusal(smiles)) is not None:
        raise Refused(422, reason)
    molecule = parse(smiles)
    if molecule.GetNumAtoms() > MOST_ATOMS_DRAWN:
        raise Refused(422, f"{molecule.GetNumAtoms()} atoms; at most {MOST_ATOMS_DRAWN} are drawn")
    canvas = require("rdkit.Chem.Draw.rdMolDraw2D", extra="molecules").MolDraw2DSVG(SIZE, SIZE)
    canvas.DrawMolecule(molecule)
    canvas.FinishDrawing()
    return str(canvas.GetDrawingText())

"""The app: routes, the service behind them, error responses and HTML pages."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gssc import __version__
from gssc.deploy.model import DeployedModel
from gssc.serve import json_rows, schemas
from gssc.serve.answers import CONTENT_TYPES, Answers
from gssc.serve.batching import Batcher
from gssc.serve.guard import OPEN_PATHS, Guard
from gssc.serve.limits import Limits, Refused
from gssc.serve.metrics import CONTENT_TYPE as METRICS_TYPE
from gssc.serve.metrics import Metrics
from gssc.serve.table_reader import TableReader
from gssc.serve.uploads import take

# Larger bodies are parsed in a thread.
INLINE_BYTES = 1 << 16
# Maximum number of tables in memory, one being read and one in the model: a small file may hold a large table.
TABLES_AT_ONCE = 2


def create_app(
    model: DeployedModel,
    limits: Limits | None = None,
    token: str | None = None,
    model_id: str = "unnamed",
    card_text: str = "",
    hosts: Iterable[str] = (),
) -> Guard:
    """Return the API of one model, ready for any ASGI server.

    Args:
        model: the model that predicts.
        limits: bounds of requests.
        token: the token that clients must send as ``Authorization: Bearer``; if left out, anyone may send requests.
        model_id: identifies this model in every answer.
        card_text: the model card as Markdown, for ``/model`` and the page.
        hosts: without a token, host names that clients may use, besides localhost and numeric addresses.
    """
    limits, metrics = limits or Limits(), Metrics()
    service = Service(model, model_id, limits, metrics, card_text)
    app = FastAPI(
        title="gssc",
        version=__version__,
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    errors_in_one_sentence(app)
    app.post("/predict", **schemas.of_predict(model, limits))(service.predict)
    app.post("/predict/file", **schemas.of_predict_file(model))(service.predict_file)
    app.get("/model", **schemas.OF_MODEL)(service.describe)
    app.get("/health", summary="Whether the server answers")(service.health)
    app.head("/health", include_in_schema=False)(service.health)
    app.get("/metrics", response_class=Response, **schemas.OF_METRICS)(service.count)
    for path, page in (("/", "page.html"), ("/docs", "docs.html")):
        app.add_api_route(path, html_page(page), methods=["GET", "HEAD"], include_in_schema=False)
    if token is not None:
        _ask_for_token_in_schema(app)
    return Guard(app, limits, metrics, token, hosts, direct={"/predict": service.classify})


class Service:
    """The operations of one model, one method per address; the first line of each docstring is shown in ``/docs``.

    Args:
        model: the model that predicts.
        model_id: identifies it in every answer.
        limits: bounds of requests.
        metrics: counts batches and rows.
        card_text: the model card as Markdown.
    """

    def __init__(self, model: DeployedModel, model_id: str, limits: Limits, metrics: Metrics, card_text: str):
        self.model, self.limits, self.metrics = model, limits, metrics
        self.batcher = Batcher(model, limits, metrics)
        self.reader = TableReader(model, limits)
        self.tables = asyncio.Semaphore(TABLES_AT_ONCE)
        self.answers = Answers(model, model_id)
        self.card = schemas.card(model, model_id, limits, card_text)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Warm the model up before the first request; stop thread and process after the last."""
        self.batcher.warm_up()
        yield
        self.batcher.close()
        self.reader.close()

    async def predict(self, request: Request) -> Response:
        """Rows are lists of numbers, objects by feature name, or columns and values of what is not zero."""
        return Response(await self.classify(request.body), media_type=CONTENT_TYPES["json"])

    async def classify(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the JSON answer to the body that ``read`` returns."""
        with self.batcher.on_its_way():
            body = await read()
            rows = self._parse(body) if len(body) <= INLINE_BYTES else await self.batcher.in_thread(self._parse, body)
        return await self.batcher.predict(rows, self.answers.json)

    def _parse(self, body: bytes) -> json_rows.Features:
        return json_rows.parse(body, self.model.widths[0], self.model.feature_names, self.limits)

    async def predict_file(
        self, request: Request, format: Literal["json", "csv", "parquet"] = "json", decimal: Literal[".", ","] = "."
    ) -> Response:
        """A table as the body, or as `file` of a form; its columns are found as `gssc predict` finds them."""
        upload = await take(request.headers, await request.body())
        async with self.tables:
            rows = await self.reader.read(*upload, decimal)
            write = self.answers.writers[format]
            content = await self.batcher.predict(rows.features, lambda found: write(found, rows.ids), alone=True)
        headers = {} if format == "json" else {"content-disposition": f'attachment; filename="predictions.{format}"'}
        return Response(content, media_type=CONTENT_TYPES[format], headers=headers)

    async def describe(self) -> Response:
        """Features, classes, sizes, where the model comes from, its card, and the limits of requests."""
        return JSONResponse(self.card)

    async def health(self) -> dict[str, str]:
        """Needs no token."""
        return {"status": "ok"}

    async def count(self) -> Response:
        """Requests, latencies, rows, batch sizes, requests under way, errors, memory."""
        return Response(self.metrics.text(), headers={"content-type": METRICS_TYPE})


def html_page(name: str) -> Any:
    """Return a handler for one HTML file; a browser runs only its own script and style, which reach only this server.

    ``/* shared.css */`` and ``/* shared.js */`` in it are replaced by the content of these files.
    """
    text = (files("gssc.serve") / name).read_text(encoding="utf-8")
    for shared in ("shared.css", "shared.js"):
        text = text.replace(f"/* {shared} */\n", (files("gssc.serve") / shared).read_text(encoding="utf-8"))
    digests = {
        tag: " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
            for part in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        )
        for tag in ("script", "style")
    }
    headers = {
        "content-security-policy": f"default-src 'none'; script-src {digests['script']}; style-src {digests['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }

    async def show() -> Response:
        return Response(text, media_type="text/html", headers=headers)

    return show


def errors_in_one_sentence(app: FastAPI) -> None:
    """Give every error the same form, ``{"detail": "..."}``."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return JSONResponse({"detail": error.message}, error.status, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the client has closed the connection


def _ask_for_token_in_schema(app: FastAPI) -> None:
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        schema = generate()
        schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                if path not in OPEN_PATHS:
                    operation["security"] = [{"token": []}]
                    operation["responses"].update({str(k): v for k, v in schemas.refusals(401).items()})
        return schema

    app.openapi = openapi  # type: ignore[method-assign]

"""What every request passes first and its answer last: token, number, size and time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gssc.serve.limits import Limits, Refused, too_large
from gssc.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Direct = Callable[[Callable[[], Awaitable[bytes]]], Awaitable[bytes]]

PATHS = ("/", "/predict", "/predict/file", "/model", "/health", "/metrics", "/docs", "/openapi.json")
# A browser opening a page sends no token: the two pages hold nothing of the model and ask for the token themselves.
OPEN_PATHS = ("/", "/docs", "/health")
# Answered even when the server is full, since that is when one looks at them.
ALWAYS_PATHS = ("/health", "/metrics")
# A long answer goes out in pieces, each once the one before is nearly gone: a client that does not read holds a
# few pieces in memory, not an answer.
PIECE = 1 << 16


class Guard:
    """An ASGI app around another: refuses early, counts bytes as they arrive, and ends what takes too long.

    Args:
        app: what answers.
        limits: bounds of the server.
        metrics: told of every answer.
        token: without it, everybody may ask.
        direct: by path, what answers a POST itself, from the body's bytes to JSON's: finding a route in the app takes
            longer than a small prediction does.
    """

    def __init__(
        self,
        app: App,
        limits: Limits,
        metrics: Metrics,
        token: str | None = None,
        direct: dict[str, Direct] | None = None,
    ):
        self.app, self.limits, self.metrics, self.direct = app, limits, metrics, direct or {}
        self.token = None if token is None else _digest(token.encode())
        self.in_flight = 0
        self.held = 0  # bytes of all bodies and long answers now in memory
        metrics.watch_in_flight(lambda: self.in_flight)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or pass on what is none."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        exchange = Exchange(self, scope, receive, send)
        refusal = self._refusal(scope)
        self.in_flight += 1
        task = asyncio.current_task()
        assert task is not None
        timer = asyncio.get_running_loop().call_later(self.limits.timeout, exchange.expire, task)
        try:
            if refusal is not None:
                raise refusal
            if scope["method"] == "POST" and (work := self.direct.get(scope["path"])):
                await exchange.answer(200, await work(exchange.body))
            else:
                await self.app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            await exchange.refuse(refused)
        except Exception:
            logging.getLogger("uvicorn.error").exception("%s failed", scope["path"])
            if not exchange.status:
                await exchange.refuse(Refused(500, "the server made a mistake; its log says which"))
        except asyncio.CancelledError:
            if not exchange.expired:
                raise
            await exchange.answer_late()
        finally:
            timer.cancel()
            self.in_flight -= 1
            self.held -= exchange.held
            path = scope["path"] if scope["path"] in PATHS else "other"
            self.metrics.answered(path, exchange.status, time.perf_counter() - start)

    def _refusal(self, scope: MutableMapping[str, Any]) -> Refused | None:
        path, length, authorization = scope["path"], b"", b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-length":
                length = value
        if self.token is not None and path not in OPEN_PATHS:
            scheme, _, given = authorization.partition(b" ")
            if not (hmac.compare_digest(_digest(given.strip()), self.token) and scheme.lower() == b"bearer"):
                return Refused(401, "this needs the header 'Authorization: Bearer TOKEN' with the server's token")
        if self.in_flight >= self.limits.max_concurrency and path not in ALWAYS_PATHS:
            return busy()
        if length and int(length) > self.limits.max_body:
            return too_large(self.limits)
        return None


class Exchange:
    """One request and its answer: counts what comes in, notes what goes out."""

    def __init__(self, guard: Guard, scope: MutableMapping[str, Any], receive: Receive, send: Send):
        self.guard, self._receive, self._send = guard, receive, send
        # Only a body that somebody announced can still be on its way.
        self.complete = not any(
            (name == b"content-length" and value != b"0") or name == b"transfer-encoding"
            for name, value in scope["headers"]
        )
        self.held = 0
        self.status = 0
        self.expired = False
        self._replaced = False

    async def receive(self) -> Message:
        """The next part of the body, unless this body or all of them together grow too large."""
        message = await self._receive()
        body = message.get("body")
        if body:
            self.held += len(body)
            self.guard.held += len(body)
            if self.held > self.guard.limits.max_body:
                raise too_large(self.guard.limits)
            if self.guard.held > self.guard.limits.max_held:
                raise busy()
        if not message.get("more_body", False):
            self.complete = True
        return message

    async def body(self) -> bytes:
        """All of the body."""
        parts = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client left")  # nobody is there to read this
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    async def send(self, message: Message) -> None:
        """Pass on, in pieces if it is long; close the connection after an answer to a body nobody read."""
        if self._replaced:
            return
        if message["type"] == "http.response.start":
            if not self._can_hold(message["headers"]):
                await self.refuse(busy())
                self._replaced = True
                return
            self.status = message["status"]
            if not self.complete:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
        elif len(message.get("body", b"")) > PIECE:
            body, more = memoryview(message["body"]), message.get("more_body", False)
            for at in range(0, len(body), PIECE):
                last = at + PIECE >= len(body)
                piece = {"type": message["type"], "body": bytes(body[at : at + PIECE]), "more_body": more or not last}
                await self._send(piece)
            return
        await self._send(message)

    def _can_hold(self, headers: Any) -> bool:
        """Whether a long answer fits beside what others hold until their clients have read it; alone it always does."""
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if length <= PIECE:
            return True
        if self.guard.held > self.held and self.guard.held + length > self.guard.limits.max_held:
            return False
        self.held += length
        self.guard.held += length
        return True

    async def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON."""
        raw = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        raw += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        await self.send({"type": "http.response.body", "body": content})

    async def refuse(self, refusal: Refused) -> None:
        """Answer with an error."""
        await self.answer(refusal.status, json.dumps({"detail": refusal.message}).encode(), refusal.headers)

    def expire(self, task: asyncio.Task[Any]) -> None:
        """The time is over: stop whatever the request waits for."""
        self.expired = True
        task.cancel()

    async def answer_late(self) -> None:
        """Say that time ran out; an answer half sent can only be cut off, which uvicorn does."""
        if self.status:
            return
        seconds = f"{self.guard.limits.timeout:g} seconds"
        if self.complete:
            await self.refuse(Refused(503, f"no answer within {seconds}; send fewer rows, or come again"))
        else:
            await self.refuse(Refused(408, f"the body did not arrive within {seconds}"))


def busy() -> Refused:
    """The answer when the server has all it can hold."""
    return Refused(503, "the server is busy; come again in a second")


def _digest(value: bytes) -> bytes:
    # Equal lengths, so that comparing tells nothing about the length of the token either.
    return hashlib.sha256(value).digest()

"""Checks around every request: token, number of requests, size and time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from gssc.serve.limits import Limits, Refused, too_large
from gssc.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Direct = Callable[[Callable[[], Awaitable[bytes]]], Awaitable[bytes]]

PATHS = ("/", "/predict", "/predict/file", "/draw", "/model", "/health", "/metrics", "/docs", "/openapi.json")
# A browser opening a page sends no token: the two pages contain nothing of the model and have a form for the token.
OPEN_PATHS = ("/", "/docs", "/health")
# Answered even when the server is full, since they are needed most then.
ALWAYS_PATHS = ("/health", "/metrics")
# A long answer goes out in pieces, each once the one before is nearly gone: a client that does not read holds a
# few pieces in memory, not an answer.
PIECE = 1 << 16
# A body that has stalled for this long is dropped when the server is full.
STALLED_SECONDS = 1.0
# Maximum number of allowed Host headers that are remembered.
REMEMBERED_HOSTS = 100


class Budget:
    """Maximum and current number of bytes of long bodies and answers in memory."""

    def __init__(self, most: int):
        self.most, self.held = most, 0


class Guard:
    """An ASGI app around another: refuses early, counts bytes as they arrive, and ends what takes too long.

    Bodies of up to ``limits.small_body`` bytes always find room: there are at most ``max_concurrency`` of them. Longer
    ones share a budget, tables one and everything else another. When there are too many requests or bytes, a body that
    has stalled is dropped.

    Args:
        app: the app that answers.
        limits: bounds of the server.
        metrics: counts every answer.
        token: the token that clients must send. Without one, a request must name the server by an IP address, as
            localhost, or as one of ``hosts``; otherwise a web page could reach it through a browser, under its own
            domain.
        hosts: names of the server.
        direct: by path, a function that answers POST requests, from the bytes of a body to those of the JSON answer:
            routing in the app takes longer than a small prediction.
    """

    def __init__(
        self,
        app: App,
        limits: Limits,
        metrics: Metrics,
        token: str | None = None,
        hosts: Iterable[str] = (),
        direct: dict[str, Direct] | None = None,
    ):
        self.app, self.limits, self.metrics, self.direct = app, limits, metrics, direct or {}
        self.token = None if token is None else _digest(token.encode())
        self.hosts = {"localhost", *(host.lower().rstrip(".") for host in hosts)}
        self._allowed_hosts = {b""}  # as they were written; HTTP/1.0 needs none
        self.in_flight = 0
        self.arriving: dict[Exchange, None] = {}  # requests whose body is on its way, the longest-silent first
        self.tables, self.others = Budget(limits.max_held), Budget(limits.max_held)
        metrics.watch_in_flight(lambda: self.in_flight)

    @property
    def held(self) -> int:
        """Bytes of all long bodies and answers in memory."""
        return self.tables.held + self.others.held

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request; pass other events to the app."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        exchange = Exchange(self, scope, receive, send)
        refusal = self._refusal(scope)
        self.in_flight += 1
        timer = asyncio.get_running_loop().call_later(self.limits.timeout, exchange.expire)
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
                await exchange.refuse(Refused(500, "internal server error; the log has the details"))
        except asyncio.CancelledError:
            if not exchange.expired:
                raise
            await exchange.answer_late()
        finally:
            timer.cancel()
            self.arriving.pop(exchange, None)
            self.in_flight -= 1
            exchange.let_go()
            path = scope["path"] if scope["path"] in PATHS else "other"
            self.metrics.answered(path, exchange.status, time.perf_counter() - start)

    def _refusal(self, scope: MutableMapping[str, Any]) -> Refused | None:
        path, length, authorization, host = scope["path"], b"", b"", b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-length":
                length = value
            elif name == b"host":
                host = value
        if self.token is None:
            if host not in self._allowed_hosts and not self._is_ours(host):
                return Refused(421, "this server does not answer to that name; start it with --allow-host NAME")
        elif path not in OPEN_PATHS:
            scheme, _, given = authorization.partition(b" ")
            if not (hmac.compare_digest(_digest(given.strip()), self.token) and scheme.lower() == b"bearer"):
                return Refused(401, "this needs the header 'Authorization: Bearer TOKEN' with the server's token")
        if self.in_flight >= self.limits.max_concurrency and path not in ALWAYS_PATHS and not self.dismiss_stalled():
            return busy()
        if length and int(length) > self.limits.max_body:
            return too_large(self.limits)
        return None

    def _is_ours(self, host: bytes) -> bool:
        """Return whether a Host header is an IP address, which no other domain can be, or a name of the server."""
        name = host.decode("latin-1").lower()
        name = name.partition("]")[0].removeprefix("[") if name.startswith("[") else name.partition(":")[0].rstrip(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            if name not in self.hosts:
                return False
        if len(self._allowed_hosts) < REMEMBERED_HOSTS:
            self._allowed_hosts.add(host)
        return True

    def dismiss_stalled(self, budget: Budget | None = None) -> bool:
        """End the request whose body has been silent for longest (of those in a budget); false if none is stalled."""
        now = time.monotonic()
        for exchange in self.arriving:
            if now - exchange.last_byte < STALLED_SECONDS:
                return False
            if budget is None or (exchange.budget is budget and exchange.held):
                exchange.give_way()
                return True
        return False


class Exchange:
    """One request and its answer: counts the bytes received and records what is sent."""

    def __init__(self, guard: Guard, scope: MutableMapping[str, Any], receive: Receive, send: Send):
        self.guard, self._receive, self._send = guard, receive, send
        self.budget = guard.tables if scope["path"] == "/predict/file" else guard.others
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        # Only an announced body can still be arriving.
        self.complete = not any(
            (name == b"content-length" and value != b"0") or name == b"transfer-encoding"
            for name, value in scope["headers"]
        )
        self.size = 0  # bytes of the body so far
        self.held = 0  # bytes of the budget that are taken
        self.last_byte = time.monotonic()
        self.status = 0
        self.expired = False
        self._replaced = self._gave_way = False

    def take(self, count: int) -> None:
        """Take bytes of the budget; if none are left, a stalled request is dropped, or this one is refused."""
        while self.budget.held + count > self.budget.most:
            if not self.guard.dismiss_stalled(self.budget):
                raise busy()
        self.held += count
        self.budget.held += count

    def let_go(self) -> None:
        """Return to the budget what was taken from it."""
        self.budget.held -= self.held
        self.held = 0

    async def receive(self) -> Message:
        """Return the next part of the body, unless this body or all of them together grow too large."""
        if not self.complete:
            self.guard.arriving[self] = None
        message = await self._receive()
        self.guard.arriving.pop(self, None)
        body = message.get("body")
        if body:
            self.last_byte = time.monotonic()
            self.size += len(body)
            if self.size > self.guard.limits.max_body:
                raise too_large(self.guard.limits)
            # A body that is no longer small counts in full.
            if self.size > self.guard.limits.small_body:
                self.take(self.size - self.held)
        if not message.get("more_body", False):
            self.complete = True
        return message

    async def body(self) -> bytes:
        """Return the whole body."""
        parts = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client has closed the connection")
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    async def send(self, message: Message) -> None:
        """Send a message, in pieces if it is long; close the connection after an answer to a body that was not read."""
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
        """Return whether a long answer fits into the budget; it always does if there is no other."""
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if length <= PIECE:
            return True
        if self.budget.held > self.held and self.budget.held + length > self.budget.most:
            return False
        self.held += length
        self.budget.held += length
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

    def expire(self) -> None:
        """Stop what the request waits for, since its time is over."""
        self.expired = True
        self._task.cancel()

    def give_way(self) -> None:
        """Stop waiting for a body that has stopped arriving, so that others find room at once."""
        self._gave_way = True
        self.guard.arriving.pop(self, None)
        self.let_go()
        self.expire()

    async def answer_late(self) -> None:
        """Answer that time ran out; an answer that is half sent can only be cut off, which uvicorn does."""
        if self.status:
            return
        if self._gave_way:
            await self.refuse(Refused(408, "the body stopped arriving while others were waiting; try again"))
            return
        seconds = f"{self.guard.limits.timeout:g} seconds"
        if self.complete:
            await self.refuse(Refused(503, f"no answer within {seconds}; send fewer rows, or try again"))
        else:
            await self.refuse(Refused(408, f"the body did not arrive within {seconds}"))


def busy() -> Refused:
    """Return the answer of a server at capacity."""
    return Refused(503, "the server is busy; try again in a second")


def _digest(value: bytes) -> bytes:
    # Equal lengths, so that the comparison does not reveal the length of the token either.
    return hashlib.sha256(value).digest()

"""uvicorn's HTTP protocol with bounds on what comes before, between and after the bytes of a body.

uvicorn's httptools protocol waits for ever for the end of a head, of any size, and keeps trailers of any number.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD = 1 << 16


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request's head is too long or too slow, and connections beyond the limit."""

    head_seconds = 10.0

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._beside_body = 0  # bytes of the request that are not its body: head, chunk sizes, trailers
        self._body = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection if there is room for it."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            self._close(503, b"retry-after: 1\r\n")
        else:
            self._head_timer = self.loop.call_later(self.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then look at what has come together."""
        if self.transport.is_closing():
            return
        self._beside_body += len(data)
        super().data_received(data)
        # Clients send chunks of a few hundred bytes at least, so their sizes are fewer bytes than the chunks.
        if self._beside_body > MAX_HEAD + self._body:
            self._close(431)
        elif self._in_head and self._head_timer is None and self._beside_body > 0:
            self._head_timer = self.loop.call_later(self.head_seconds, self._late)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count what belongs to the body."""
        self._beside_body -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next byte begins another request."""
        self._in_head = True
        self._beside_body = self._body = 0
        super().on_message_complete()

    def _late(self) -> None:
        self._head_timer = None
        self._close(408)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self, status: int, headers: bytes = b"") -> None:
        """End the connection, with a status if no answer is under way."""
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(STATUS_LINE[status] + headers + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

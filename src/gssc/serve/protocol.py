"""uvicorn's HTTP protocol with bounds on what comes before, between and after the bytes of a body.

uvicorn's httptools protocol waits forever for the end of a head, of any size, and keeps trailers of any number. It
closes a connection at once, which resets it if the client is still sending, so that the answer may never be read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD = 1 << 16


class LingeringTransport:
    """A transport that lets a client which is still sending read its answer before the connection closes.

    It signals that nothing more will come, discards what still arrives, and closes when the client does or after
    ``seconds``.
    """

    seconds = 5.0

    def __init__(self, transport: asyncio.Transport, protocol: BoundedProtocol):
        self._transport, self._protocol = transport, protocol
        self._timer: asyncio.TimerHandle | None = None
        # Called for every answer, so __getattr__ would be too slow.
        self.write = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or will be once the client has read its answer."""
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close gracefully."""
        if self.is_closing() or not self._protocol.client_is_sending:
            self.close_now()
            return
        self._timer = self._protocol.loop.call_later(self.seconds, self._transport.abort)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._protocol.flow.resume_reading()

    def close_now(self) -> None:
        """Close the connection, whether or not the client has."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request's head is too long or too slow.

    Beyond ``max_connections``, the one that has waited longest without a request makes room for a new one, so that
    silent connections cannot block others.
    """

    head_seconds = 10.0
    last_seconds = 1.0  # for the first request of a connection, when the server ends

    def __init__(self, *args: Any, max_connections: int | None = None, **options: Any):
        super().__init__(*args, **options)
        self.max_connections = max_connections
        # Connections without a request under way, the longest-waiting first.
        self._waiting: dict[BoundedProtocol, None] = vars(self.server_state).setdefault("waiting", {})
        self._outside_body = 0  # bytes of the request that are not its body: head, chunk sizes, trailers
        self._body = 0
        self._in_head = True
        self._asked = False  # whether a request has arrived
        self._head_timer: asyncio.TimerHandle | None = None

    @property
    def client_is_sending(self) -> bool:
        """Whether part of a request has arrived, but not all of it."""
        return not self._in_head or self._outside_body > 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, and close the one that has waited longest if there are too many."""
        super().connection_made(LingeringTransport(transport, self))  # type: ignore[arg-type]
        self._waiting[self] = None
        self._head_timer = self.loop.call_later(self.head_seconds, self._late)
        if self.max_connections is not None and len(self.connections) > self.max_connections:
            longest = next(iter(self._waiting))
            if longest is self:
                self._close(503, b"retry-after: 1\r\n")
            else:
                longest.make_room()

    def make_room(self) -> None:
        """Close a connection on which nothing is under way."""
        self._stop_timer()
        self._waiting.pop(self, None)
        self.connections.discard(self)
        self.transport.close_now()  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        self._waiting.pop(self, None)
        self.transport.close_now()  # type: ignore[attr-defined]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then check the size of what has arrived."""
        if self.transport.is_closing():
            return
        self._outside_body += len(data)
        super().data_received(data)
        # Clients send chunks of a few hundred bytes at least, so their sizes are fewer bytes than the chunks.
        if self._outside_body > MAX_HEAD + self._body:
            self._close(431)
        elif self._in_head and self._head_timer is None and self._outside_body > 0:
            self._head_timer = self.loop.call_later(self.head_seconds, self._late)

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._in_head, self._asked = False, True
        self._stop_timer()
        self._waiting.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count bytes of the body."""
        self._outside_body -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the next byte begins another request."""
        self._in_head = True
        self._outside_body = self._body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that the answer has been sent."""
        super().on_response_complete()
        if not self.pipeline or self.transport.is_closing():
            self._waiting[self] = None

    def shutdown(self) -> None:
        """Close once nothing is under way; a new connection, whose first request may be arriving, gets a moment."""
        if not self._asked and not self.transport.is_closing():
            self._stop_timer()
            self._head_timer = self.loop.call_later(self.last_seconds, self._late)
        else:
            super().shutdown()

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
        else:
            self.transport.close_now()  # type: ignore[attr-defined]

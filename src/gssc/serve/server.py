"""The app on uvicorn: listens, serves, and on SIGTERM or Ctrl+C finishes what it has begun."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from gssc.errors import GsscError
from gssc.serve.limits import Limits
from gssc.serve.protocol import BoundedProtocol


def configure(app: Callable[..., Any], limits: Limits) -> uvicorn.Config:
    """uvicorn's settings: bounded connections, no access log, no trust in forwarding headers."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.max_connections,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=math.ceil(limits.timeout) + 5,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections, so that an address that cannot be had is known before anything starts."""
    if not 0 <= port <= 65535:
        raise GsscError(f"--port is {port}; it must be from 0 to 65535")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # The socket module appends the address to the system's words; a name that is unknown has no such number.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise GsscError(f"cannot listen on {host}, port {port}: {reason}; choose another --host or --port") from None


class Server(uvicorn.Server):
    """uvicorn's server, which tells when it answers requests and signals."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]):
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        self.on_start()

    def stop(self, *_: Any) -> None:
        """End in good order, as soon as the start is over."""
        self.should_exit = True


def serve(app: Callable[..., Any], listener: socket.socket, limits: Limits, on_start: Callable[[], None]) -> None:
    """Serve until a signal comes; ``on_start`` is called once requests are answered."""
    server = Server(configure(app, limits), on_start)
    # uvicorn's own handler is there from start to end only, and raises the signal again once it is done: after an
    # orderly end that must not look like a violent one.
    before = signal.signal(signal.SIGTERM, server.stop)
    try:
        server.run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)

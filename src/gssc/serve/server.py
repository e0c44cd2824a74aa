"""The app on uvicorn: listens, serves, and on SIGTERM or Ctrl+C finishes the requests in flight."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from gssc.errors import GsscError
from gssc.serve.limits import Limits
from gssc.serve.protocol import BoundedProtocol
from gssc.signals import ENDING

# Files a process has open in addition to its connections: libraries, the event loop, the process that reads tables.
OTHER_FILES = 64

SO_ATTACH_FILTER = 26  # Linux; not in the socket module
HANDSHAKE = 0.05  # seconds after which handshakes under way are complete
# A packet filter (code, jump if true, jump if false, operand): packets with the flag SYN are dropped, others pass.
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


def configure(app: Callable[..., Any], limits: Limits, max_connections: int | None = None) -> uvicorn.Config:
    """Return the settings of uvicorn: bounded connections, no access log, no trust in forwarding headers."""
    return uvicorn.Config(
        app,
        http=partial(BoundedProtocol, max_connections=max_connections or limits.max_connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=math.ceil(limits.timeout) + 5,
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that an address that is not available is reported before anything starts."""
    if not 0 <= port <= 65535:
        raise GsscError(f"--port is {port}; it must be from 0 to 65535")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # The socket module appends the address to the system's message; the error of an unknown name has no errno.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise GsscError(f"cannot listen on {host}, port {port}: {reason}; choose another --host or --port") from None


def possible_connections(wanted: int) -> int:
    """Return how many connections this process may have; raises its limit of open files as needed and allowed.

    Where there are too few, connections would be accepted and closed again silently.
    """
    try:
        import resource
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHER_FILES))


def refuse_connections(listener: socket.socket) -> None:
    """Refuse new connections; those whose handshake is under way can still be accepted.

    On Linux the request for a new one is dropped without an answer; a client repeats it after a second, when the socket
    is closed, and is refused. Elsewhere, and where only root may attach a packet filter, the queue of connections that
    wait is cut to the shortest there is.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
        described = struct.pack("HP", len(DROP_SYN), ctypes.addressof(program))
        with suppress(PermissionError):
            listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, described)
            return
    listener.listen(0)


class Server(uvicorn.Server):
    """uvicorn's server, which reports when it accepts requests and ends without losing any.

    When stopped, it continues for ``farewell`` seconds and closes every connection after its next answer. That gives
    a load balancer time to send requests elsewhere, and answers connections that wait to be accepted: closing the
    listening socket would reset them.
    """

    farewell = 1.0

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]):
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report it."""
        await super().startup(sockets)
        self.on_start()

    async def main_loop(self) -> None:
        """Serve until stopped, then for ``farewell`` more seconds."""
        await super().main_loop()
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        until = time.monotonic() + self.farewell
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.02)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections that wait, then close the listening sockets and finish what is under way."""
        loop = asyncio.get_running_loop()
        for listener in sockets or []:
            refuse_connections(listener)
        await asyncio.sleep(HANDSHAKE)
        for listener in sockets or []:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    break
                accepted.setblocking(False)
                await loop.connect_accepted_socket(self._protocol, accepted)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def stop(self, *_: Any) -> None:
        """Stop gracefully, as soon as the start is over."""
        self.should_exit = True


def serve(
    app: Callable[..., Any],
    listener: socket.socket,
    limits: Limits,
    on_start: Callable[[], None],
    max_connections: int | None = None,
) -> None:
    """Serve until a signal comes; ``on_start`` is called once requests are answered."""
    server = Server(configure(app, limits, max_connections), on_start)
    # uvicorn's own handler is installed only while it runs, and raises the signal again when done, so that a graceful
    # end would look like a crash.
    stopping = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, server.stop) for number in stopping}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

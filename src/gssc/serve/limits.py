"""Limits of one request and of all together, and the error when a limit is exceeded."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gssc.errors import GsscError

SMALL_BODY = 1 << 16


@dataclass(frozen=True)
class Limits:
    """Bounds of a server; every one can be set on the command line.

    Args:
        max_rows: rows of one request.
        max_body_mb: megabytes of one request's body. A table may hold as many numbers as a body may have bytes,
            which only a compressed file could exceed.
        timeout: seconds a request may take, from its first byte to the last of its answer.
        max_concurrency: maximum number of requests in flight; others get 503 and Retry-After.
        batch_wait_ms: milliseconds that rows wait for others that are already arriving.
    """

    max_rows: int = 10_000
    max_body_mb: float = 16.0
    timeout: float = 30.0
    max_concurrency: int = 256
    batch_wait_ms: float = 1.0

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_body_mb", "timeout", "max_concurrency"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise GsscError(f"--{name.replace('_', '-')} is {value}; it must be a positive number")
        if not 0 <= self.batch_wait_ms <= 1000:
            raise GsscError(f"--batch-wait-ms is {self.batch_wait_ms}; it must be from 0 to 1000")

    @property
    def max_body(self) -> int:
        """Maximum bytes of one body."""
        return max(1, int(self.max_body_mb * 2**20))

    @property
    def max_held(self) -> int:
        """Maximum total bytes of long bodies and answers of one kind in memory."""
        return 4 * self.max_body

    @property
    def small_body(self) -> int:
        """Maximum bytes of a small body, which is accepted however many long ones are in memory."""
        return min(self.max_body, SMALL_BODY)

    @property
    def max_connections(self) -> int:
        """Maximum number of open connections, including idle ones."""
        return 4 * self.max_concurrency


class Refused(Exception):
    """A request that is answered with an error, and one sentence with the reason.

    Args:
        status: HTTP status.
        message: what is wrong and where, for the client.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message

    @property
    def headers(self) -> dict[str, str]:
        """Headers that go with the status."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {"retry-after": "1"} if self.status == 503 else {}


def too_large(limits: Limits) -> Refused:
    """Return the answer to a body that is, or is announced to be, over the limit."""
    return Refused(413, f"the body is larger than {limits.max_body_mb:g} MB; send fewer rows at a time")


def too_many_rows(limits: Limits) -> Refused:
    """Return the answer to more rows than a request may have."""
    return Refused(413, f"more than {limits.max_rows:,} rows; send fewer at a time")

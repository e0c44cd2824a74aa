"""The server's side of the process that reads tables: starts it, sends tables, replaces it after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np

from gssc.deploy.model import DeployedModel
from gssc.deploy.table_rows import TableRows
from gssc.serve.limits import Limits, Refused
from gssc.serve.table_process import TableShape
from gssc.text_tables import DECIMAL_OPTION

# The parsed cells of a text table take up to this many times its size; Parquet's buffers take less.
TIMES_BODY = 24
LEAST_MEMORY = 128 << 20
DECIMAL_QUERY = "?decimal=, in the address (on the page: the checkbox)"


class TableReader:
    """Reads one table at a time in a process that is started for the first one.

    Args:
        model: the model, whose features the tables must have.
        limits: maximum size of a table.
    """

    def __init__(self, model: DeployedModel, limits: Limits):
        self.shape = TableShape(
            width=model.widths[0],
            feature_names=model.feature_names,
            max_rows=limits.max_rows,
            max_values=limits.max_body,
            max_memory=LEAST_MEMORY + TIMES_BODY * limits.max_body,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="gssc-read")

    async def read(self, kind: str, name: str, body: bytes, decimal: str = ".") -> TableRows:
        """Return the rows of a table; if this is cancelled while the process reads, the process is killed."""
        job = self._threads.submit(self._ask, kind, name, body, decimal)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if job.running() and self.process is not None:
                self.process.kill()
            raise

    def close(self) -> None:
        """End the process."""
        self._threads.shutdown(cancel_futures=True)
        self._stop()

    def _ask(self, kind: str, name: str, body: bytes, decimal: str) -> TableRows:
        process = self.process if self.process is not None and self.process.poll() is None else self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            request = {"kind": kind, "name": name, "decimal": decimal, "size": len(body)}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.write(body)
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
            if "error" in reply:
                raise Refused(422, reply["error"].replace(DECIMAL_OPTION, DECIMAL_QUERY))
            numbers = process.stdout.read(4 * reply["rows"] * reply["columns"])
            features = np.frombuffer(numbers, dtype=np.float32).reshape(reply["rows"], reply["columns"])
        except (OSError, ValueError):
            # The process died, before or during its answer.
            self._stop()
            raise Refused(422, f"{name} cannot be read: reading it takes too much memory or too long") from None
        ids = reply["ids"]
        return TableRows(features, None if ids is None else np.array(ids, dtype=object))

    def _start(self) -> subprocess.Popen[bytes]:
        self._stop()
        # Modules are found as in this process, but not in the current folder. Few threads and Arrow's system allocator:
        # more of them reserve address space that counts as memory.
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        command = [sys.executable, "-m", "gssc.serve.table_process"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(self.shape)).encode() + b"\n")
        self.process = process
        return process

    def _stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()

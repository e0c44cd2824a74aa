"""Requests per second of ``gssc serve`` and of an empty endpoint of bare FastAPI, in the same run.

    python benchmarks/serving.py [--requests 100000] [--out results/serving.md]

Each server is one process with one worker and one thread, on the same uvicorn settings; the client is another
process (wrk if it is installed, else Python) and keeps a number of connections busy, one request at a time each.
The servers take turns and get the same bodies. The empty endpoint ignores the body and returns ``{}``; ours parses it,
checks every number, predicts, and returns probabilities. Memory is the resident size of a server, after a warm-up and
at the end.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy reads it, here and in the servers

import argparse
import asyncio
import json
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

CASES: dict[str, dict[str, Any]] = {
    "one dense row of 16": {"widths": [16, 256, 4]},
    "one sparse row, Cora's size": {"widths": [1433, 256, 7], "entries": 18},
}
SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open(os.getenv("BODY"), "rb")
wrk.body = file:read("*a")
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('JSON {"requests": %d, "seconds": %f, "errors": %d, "p50": %f, "p99": %f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


@dataclass
class Server:
    """A server process and its measurements."""

    name: str
    process: subprocess.Popen[str]
    port: int
    turns: list[dict[str, float]] = field(default_factory=list)
    before: float = 0.0
    after: float = 0.0

    @property
    def megabytes(self) -> float:
        """Return the resident memory of the process; NaN on systems without /proc."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except OSError:
            return float("nan")
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def total(self, what: str) -> float:
        """Return the sum over all turns."""
        return sum(turn[what] for turn in self.turns)

    def middle(self, what: str) -> float:
        """Return the median over all turns."""
        return statistics.median(turn[what] for turn in self.turns)


@contextmanager
def started(name: str, command: list[str]) -> Iterator[Server]:
    """Run a server until the with block ends; it prints its address on stderr."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("serving "))
        yield Server(name, process, int(line.partition("http://127.0.0.1:")[2].split()[0]))
    finally:
        process.terminate()
        process.communicate()


def serve_bare() -> None:
    """Serve the empty endpoint with our uvicorn settings."""
    from fastapi import FastAPI

    from gssc.serve.limits import Limits
    from gssc.serve.server import listen, serve

    app = FastAPI()

    @app.post("/predict")
    async def nothing() -> dict[str, str]:
        return {}

    with listen("127.0.0.1", 0) as listener:
        line = f"serving nothing at http://127.0.0.1:{listener.getsockname()[1]}"
        serve(app, listener, Limits(), on_start=lambda: print(line, file=sys.stderr, flush=True))


def make_case(folder: Path, widths: list[int], entries: int | None = None) -> bytes:
    """Write a model with random weights and return one request."""
    from gssc.deploy import DeployedModel

    rng = np.random.default_rng(0)
    layers = [(0.1 * rng.standard_normal((out, into)), rng.standard_normal(out)) for into, out in pairwise(widths)]
    DeployedModel(layers, [f"class {number}" for number in range(widths[-1])]).save(folder)
    if entries is None:
        body: dict[str, Any] = {"rows": [rng.standard_normal(widths[0]).round(4).tolist()]}
    else:
        columns = sorted(rng.choice(widths[0], entries, replace=False).tolist())
        body = {"indices": [columns], "values": [[1.0] * entries]}
    return json.dumps(body).encode()


def load(client: str, port: int, body: Path, connections: int, seconds: float) -> dict[str, float]:
    """Load a server from another process; return requests, seconds, errors, and percentiles in milliseconds."""
    if client == "wrk":
        script = body.with_suffix(".lua")
        script.write_text(SCRIPT)
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(script)]
        command.append(f"http://127.0.0.1:{port}/predict")
    else:
        command = [sys.executable, __file__, "--client", str(port), str(body), str(connections), str(seconds)]
    environment = {**os.environ, "BODY": str(body)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(next(line for line in run.stdout.splitlines() if line.startswith("JSON "))[5:]))


async def python_client(port: int, body: bytes, connections: int, seconds: float) -> dict[str, float]:
    """Load a server from Python: the same as wrk, but slower."""
    head = b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n%s"
    request %= (len(body), body)
    times: list[float] = []
    errors = 0
    end = time.perf_counter() + seconds

    async def ask() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (start := time.perf_counter()) < end:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            times.append(time.perf_counter() - start)
            errors += not head.startswith(b"http/1.1 200")
        writer.close()
        await writer.wait_closed()

    start = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(connections)))
    taken = time.perf_counter() - start
    p50, p99 = (1e3 * float(value) for value in np.percentile(times, [50, 99]))
    return {"requests": len(times), "seconds": taken, "errors": errors, "p50": p50, "p99": p99}


def measure(title: str, requests: int, connections: int, seconds: float, client: str) -> list[Server]:
    """Load both servers in turns until each has answered ``requests`` requests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = folder / "body.json"
        body.write_bytes(make_case(folder / "model", **CASES[title]))
        ours = [sys.executable, "-m", "gssc", "serve", str(folder / "model"), "--port", "0"]
        bare = [sys.executable, __file__, "--bare"]
        with started("gssc serve", ours) as first, started("bare FastAPI, empty endpoint", bare) as second:
            servers = [first, second]
            for server in servers:
                load(client, server.port, body, connections, seconds)
                server.before = server.megabytes
            while min(server.total("requests") for server in servers) < requests:
                for server in servers:
                    server.turns.append(load(client, server.port, body, connections, seconds))
            for server in servers:
                server.after = server.megabytes
    return servers


def table(title: str, servers: list[Server]) -> str:
    """Return the Markdown table of one case."""
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        "",
        "| server | requests | errors | requests/s | p50 ms | p99 ms | memory before, MB | after, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for server in servers:
        rate = server.total("requests") / server.total("seconds")
        lines.append(
            f"| {server.name} | {server.total('requests'):,.0f} | {server.total('errors'):.0f} | {rate:,.0f} | "
            f"{server.middle('p50'):.2f} | {server.middle('p99'):.2f} | {server.before:.1f} | {server.after:.1f} |"
        )
    ratio = statistics.median(
        (a["requests"] / a["seconds"]) / (b["requests"] / b["seconds"])
        for a, b in zip(servers[0].turns, servers[1].turns, strict=True)
    )
    lines += ["", f"Requests per second, ours over bare, median of {len(servers[0].turns)} turns: {ratio:.2f}.", ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> dict[str, list[Server]]:
    """Measure every case, print the tables, and optionally write them."""
    parser = argparse.ArgumentParser(description="gssc serve compared with an empty endpoint of bare FastAPI")
    parser.add_argument("--requests", type=int, default=100_000, help="to each server, in each case")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one turn")
    parser.add_argument("--load-with", choices=("wrk", "python"), default="wrk" if shutil.which("wrk") else "python")
    parser.add_argument("--out", type=Path, help="Markdown file for the tables")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.bare:
        serve_bare()
        return {}
    if options.client:
        port, body, connections, seconds = options.client
        content = Path(body).read_bytes()
        result = asyncio.run(python_client(int(port), content, int(connections), float(seconds)))
        print("JSON", json.dumps(result))
        return {}
    results, tables = {}, []
    for title in CASES:
        results[title] = measure(title, options.requests, options.connections, options.seconds, options.load_with)
        tables.append(table(title, results[title]))
        print(tables[-1], flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text("\n".join([introduction(options), *tables]), encoding="utf-8")
    return results


def introduction(options: argparse.Namespace) -> str:
    """Return the introduction of the results page: the command and the conditions."""
    words = sys.argv if sys.argv[0].endswith("serving.py") else ["serving.py"]
    command = shlex.join(["python", "benchmarks/serving.py", *words[1:]])
    busy = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    cores, python = os.cpu_count(), platform.python_version()
    return f"""# Serving

    {command}

Client: {options.load_with}, one process, {options.connections} connections, turns of {options.seconds:g} s.
Python {python}, {cores} cores, load average {busy} at the end. Percentiles are medians over the turns. The method
is described at the top of `benchmarks/serving.py`.
"""


if __name__ == "__main__":
    main()

"""``gssc serve``: a trained model behind HTTP."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from gssc.errors import GsscError
from gssc.extras import require
from gssc.files import read_bytes

EXAMPLES = """\
examples:
  gssc serve runs/cora
  gssc serve runs/cora --host 0.0.0.0 --port 80 --token-file token.txt
  curl localhost:8000/predict/file --data-binary @rows.csv -H 'Content-Type: text/csv'

Open the address in a browser to drop a table and see its predictions; /docs lists the API. Ctrl+C or SIGTERM stops
the server after the requests in flight.
"""
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 10_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="run folder, with model.json and model.safetensors")
    parser.add_argument("--host", type=str, default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one")
    parser.add_argument("--token-file", type=str, default=None, help="file with the token that clients must send")
    parser.add_argument(
        "--allow-host",
        type=str,
        action="append",
        default=[],
        help="without a token: a host name that clients may use, besides localhost and numeric addresses; repeatable",
    )
    parser.add_argument("--max-rows", type=int, default=10_000, help="maximum rows per request")
    parser.add_argument("--max-body-mb", type=float, default=16.0, help="maximum megabytes per request")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds one request may take")
    parser.add_argument(
        "--max-concurrency", type=int, default=256, help="maximum requests in flight; others get 503 and Retry-After"
    )
    parser.add_argument(
        "--batch-wait-ms", type=float, default=1.0, help="milliseconds that rows wait for others to form a batch"
    )


def run(args: Any) -> None:
    """Load the model, print its address, and serve it."""
    for module in ("fastapi", "uvicorn", "httptools", "python_multipart", "prometheus_client", "pyarrow"):
        require(module, extra="serve")
    from rich.console import Console

    from gssc.cli.molecules import is_molecule_model, molecule_app
    from gssc.deploy.export.card import card
    from gssc.deploy.export.run_model import read_run_model
    from gssc.serve.app import create_app
    from gssc.serve.limits import Limits
    from gssc.serve.server import listen, possible_connections, serve

    names = ("max_rows", "max_body_mb", "timeout", "max_concurrency", "batch_wait_ms")
    limits = Limits(**{name: getattr(args, name) for name in names})
    token = None if args.token_file is None else read_token(args.token_file)
    hosts = [args.host, *args.allow_host]
    if is_molecule_model(args.run):
        app = molecule_app(args.run, limits, token, hosts)
    else:
        run_model = read_run_model(args.run)
        # The first digits of the digest, which differs for another model or other names.
        app = create_app(
            run_model.model, limits, token, model_id=run_model.digest[:16], card_text=card(run_model), hosts=hosts
        )
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    connections = possible_connections(limits.max_connections)
    with listen(args.host, args.port) as listener:
        host, port = listener.getsockname()[:2]
        if args.token_file is not None and (others := readers_of(args.token_file)):
            console.print(
                f"warning: {args.token_file} can be read by {others}: chmod 600 {args.token_file}",
                style="yellow",
                markup=False,
            )
        if connections < limits.max_connections:
            console.print(
                f"warning: room for {connections:,} connections, not {limits.max_connections:,}: raise the number of "
                "open files (ulimit -n) or lower --max-concurrency",
                style="yellow",
            )
        if token is None and args.host not in LOOPBACK:
            console.print(
                "warning: no --token-file: anyone who can reach this address may send requests", style="yellow"
            )
        shown = f"[{host}]" if ":" in host else host
        line = f"serving {args.run} at http://{shown}:{port} (Ctrl+C stops)"
        serve(app, listener, limits, lambda: console.print(line, markup=False), connections)


def read_token(path: str) -> str:
    """Return the token in a file, without the line break at its end."""
    try:
        token = read_bytes(path, most=LONGEST_TOKEN).decode("ascii").strip()
    except FileNotFoundError as error:
        raise GsscError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GsscError(f"{path}: a token has only ASCII characters, as a header must") from None
    if len(token) < SHORTEST_TOKEN or len(token.split()) != 1:
        raise GsscError(
            f"{path}: a token is one line of at least {SHORTEST_TOKEN} characters without spaces; make one with "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def readers_of(path: str) -> str:
    """Return who besides its owner may read a file: ``everyone``, ``its group``, or empty text for no one."""
    mode = Path(path).stat().st_mode if os.name == "posix" else 0
    return "everyone" if mode & stat.S_IROTH else "its group" if mode & stat.S_IRGRP else ""

"""Servers for tests: one in a thread, whose app a test can choose, and the real command in a process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gssc.deploy import DeployedModel
from gssc.serve.app import create_app
from gssc.serve.limits import Limits
from gssc.serve.server import configure, listen


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        content = self.json
        assert list(content) == ["detail"]
        return content["detail"]


class Client:
    """Sends requests to one server, each on a new connection."""

    def __init__(self, port: int, app: Any = None):
        self.port, self.app = port, app
        self.stop: Callable[[], None] = lambda: None

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def predict(self, content: Any, **headers: str) -> Answer:
        return self.ask("POST", "/predict", content if isinstance(content, bytes) else json.dumps(content), headers)

    def send_file(self, content: bytes, kind: str = "text/csv", query: str = "") -> Answer:
        return self.ask("POST", f"/predict/file{query}", content, {"Content-Type": kind})


@contextmanager
def serving(app: Any, limits: Limits) -> Iterator[Client]:
    """Serve an app from a thread, as ``gssc serve`` does from its process."""
    import uvicorn

    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configure(app, limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join()

        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.005)
            client = Client(listener.getsockname()[1], app)
            client.stop = stop
            yield client
        finally:
            stop()


@pytest.fixture(scope="session")
def small() -> DeployedModel:
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((4, 3)), rng.standard_normal(4)), (rng.standard_normal((2, 4)), np.zeros(2))]
    return DeployedModel(layers, class_names=["cat", "dog"], metadata={"dataset": "pets"})


@pytest.fixture(scope="module")
def client(small: DeployedModel) -> Iterator[Client]:
    """A server for all tests of a module that only send requests."""
    limits = Limits(max_rows=5000, max_body_mb=1)
    with serving(create_app(small, limits, model_id="m1", card_text="# Model card: pets\n"), limits) as found:
        yield found


@pytest.fixture
def live() -> Iterator[Callable[..., Client]]:
    """Start servers: ``live(model, token=..., max_rows=...)``; they end with the test."""
    with ExitStack() as stack:

        def start(model: DeployedModel, token: str | None = None, hosts: Sequence[str] = (), **limits: Any) -> Client:
            bounds = Limits(**limits)
            app = create_app(model, bounds, token, model_id="m1", hosts=hosts)
            return stack.enter_context(serving(app, bounds))

        yield start


class Served:
    """A running ``gssc serve``."""

    def __init__(self, process: subprocess.Popen[str], port: int, output: list[str], reading: threading.Thread):
        self.process, self.client, self.output, self._reading = process, Client(port), output, reading

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(60)
        self._reading.join()
        return code


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Run ``gssc serve`` on a free port and wait until it prints its address."""
    started: list[Served] = []

    def start(*arguments: str | Path, open_files: int | None = None) -> Served:
        def prepare() -> None:
            # A shell that runs the tests in the background makes them, and so the server, ignore SIGINT.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if open_files is not None:
                import resource

                resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

        command = [sys.executable, "-m", "gssc", "serve", *map(str, arguments), "--port", "0"]
        environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )
        assert process.stderr is not None
        output: list[str] = []
        for line in process.stderr:
            output.append(line)
            if line.startswith("serving "):
                break
        else:
            raise AssertionError(f"the server did not start: {output}")
        port = int(output[-1].partition("http://127.0.0.1:")[2].split()[0])
        reading = threading.Thread(target=lambda: output.extend(process.stderr or []))
        reading.start()
        started.append(Served(process, port, output, reading))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
        served.stop()
        assert served.process.stderr is not None
        served.process.stderr.close()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of eight features and three classes; random weights, so that it needs no torch."""
    rng = np.random.default_rng(0)
    shapes = ((16, 8), (3, 16))
    layers = [(rng.standard_normal(shape), rng.standard_normal(shape[0])) for shape in shapes]
    model = DeployedModel(layers, ["0", "1", "2"], metadata={"dataset": "csbm", "test_accuracy": 0.5})
    folder = tmp_path_factory.mktemp("trained") / "run"
    model.save(folder)
    return folder


@pytest.fixture
def oxygen_model() -> Any:
    """The share of oxygen among the atoms, as a logit: one linear map that uses one column."""
    pytest.importorskip("rdkit")
    from gssc.molecules.atom_rows import RowFormat
    from gssc.molecules.deployed import DeployedMolecules
    from gssc.molecules.fields import ATOM_WIDTH

    weight = np.zeros((1, ATOM_WIDTH), dtype=np.float32)
    weight[0, 7] = 1  # element 8
    one, zero = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    return DeployedMolecules([([(weight, zero)], [(one, zero)])], ("oxygen",), RowFormat(), use_size=False)

"""The real command in a process of its own, with a model that was trained."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gssc.cli.main import main
from gssc.cli.serve import read_token
from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.serve import server
from gssc.serve.app import create_app
from gssc.serve.limits import Limits

TOKEN = "a-secret-of-some-length"


def resident(pid: int) -> int:
    """Bytes of memory a process has."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def test_served_predictions_are_those_of_the_model(start_process, trained: Path) -> None:
    served = start_process(trained)
    model = DeployedModel.load(trained)
    x = np.random.default_rng(0).random((5, model.widths[0])).round(3)
    answer = served.client.predict({"rows": x.tolist()}).json
    np.testing.assert_allclose(answer["probabilities"], model.predict_proba(x), rtol=1e-4)
    assert answer["classes"] == model.predict(x).tolist()
    digest = json.loads((trained / "model.json").read_text())["digest"]
    described = served.client.get("/model").json
    assert answer["model"] == described["model"] == digest[:16]
    assert all(f"## {part}" in described["card"] for part in ("Data", "Calibration", "Intended use", "Limits"))
    if sys.platform == "linux":
        libraries = Path(f"/proc/{served.process.pid}/maps").read_text()
        assert "numpy" in libraries
        assert "torch" not in libraries
    assert served.stop() == 0
    assert served.output == [f"serving {trained} at http://127.0.0.1:{served.client.port} (Ctrl+C stops)\n"]


def test_sigterm_lets_requests_finish(start_process, trained: Path) -> None:
    served = start_process(trained)
    body = json.dumps({"rows": [[0.5] * 8]}).encode()
    with socket.create_connection(("127.0.0.1", served.client.port), timeout=30) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:9]
        )
        while b"gssc_requests_in_flight 2.0" not in served.client.get("/metrics").body:
            time.sleep(0.01)
        served.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        with pytest.raises(ConnectionRefusedError):  # nobody new is let in
            while time.monotonic() < deadline:
                socket.create_connection(("127.0.0.1", served.client.port)).close()
                time.sleep(0.05)
        assert served.process.poll() is None
        connection.sendall(body[9:])
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"probabilities"' in answer
    assert served.process.wait(30) == 0


def test_sigterm_lets_a_table_be_read(start_process, trained: Path) -> None:
    served = start_process(trained, "--max-rows", "200000")
    rows = b"0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8\n" * 30_000
    connection = http.client.HTTPConnection("127.0.0.1", served.client.port, timeout=60)
    connection.request("POST", "/predict/file?format=csv", rows, {"Content-Type": "text/csv"})
    while b"gssc_requests_in_flight 2.0" not in served.client.get("/metrics").body:
        time.sleep(0.01)
    served.process.send_signal(signal.SIGTERM)
    response = connection.getresponse()
    assert response.status == 200
    assert response.read().count(b"\n") == 30_001
    connection.close()
    assert served.process.wait(30) == 0


def test_sigterm_while_starting_is_not_lost(model: DeployedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    run, before, told = server.Server.run, signal.getsignal(signal.SIGTERM), []

    def run_after_signal(self: server.Server, sockets: list[socket.socket]) -> None:
        signal.raise_signal(signal.SIGTERM)
        run(self, sockets)

    monkeypatch.setattr(server.Server, "run", run_after_signal)
    with server.listen("127.0.0.1", 0) as listener:
        server.serve(create_app(model), listener, Limits(), on_start=lambda: told.append(1))
    assert told == [1]
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_is_an_interruption(start_process, trained: Path) -> None:
    served = start_process(trained)
    assert served.stop(signal.SIGINT) == 130
    assert served.output[-1] == "error: interrupted\n"


def test_the_token_guards_and_is_not_shown(start_process, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    served = start_process(trained, "--token-file", "token", "--max-rows", "1")
    rows = {"rows": [[0.5] * 8]}
    assert served.client.predict(rows, Authorization="Bearer wrong").status == 401
    assert served.client.predict(rows, Authorization=f"Bearer {TOKEN}").status == 200
    assert served.client.predict({"rows": [[0.5] * 8] * 2}, Authorization=f"Bearer {TOKEN}").status == 413
    served.client.ask("GET", f"/{TOKEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert served.stop() == 0
    assert TOKEN not in "".join(served.output)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_memory_stays_flat(start_process, trained: Path) -> None:
    served = start_process(trained)
    body = json.dumps({"rows": [[0.5] * 8]})
    sparse = json.dumps({"indices": [[1]], "values": [[1.5]]})
    connection = http.client.HTTPConnection("127.0.0.1", served.client.port, timeout=30)

    def ask(count: int) -> None:
        for number in range(count):
            path = "/nothing/" + str(number) if number % 5 == 0 else "/predict"
            connection.request("POST", path, (body, sparse, "[")[number % 3])
            response = connection.getresponse()
            assert response.status in (200, 404, 422)
            response.read()

    ask(500)
    before = resident(served.process.pid)
    ask(1500)
    connection.close()
    # A leak of one request's body and rows would be some megabytes.
    assert resident(served.process.pid) - before < 2 * 2**20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a run: there is no such folder"),
        (["run", "--host", "256.0.0.1"], "cannot listen on 256.0.0.1, port 8000"),
        (["run", "--port", "70000"], "--port is 70000; it must be from 0 to 65535"),
        (["run", "--max-rows", "0"], "--max-rows is 0; it must be a positive number"),
        (["run", "--token-file", "nowhere"], "cannot read nowhere"),
        (["run", "--prot", "1"], "did you mean '--port'?"),
    ],
)
def test_what_the_user_can_fix(model_folder, tmp_path, monkeypatch, capsys, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["serve", *arguments]) == 2
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1
    assert message in captured


def test_a_port_that_is_taken(model_folder: Path, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(["serve", str(model_folder), "--port", str(other.getsockname()[1])]) == 2
    assert "Address already in use; choose another --host or --port" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("content", ["", "short", "two words that are long enough", "a\nb" * 20, "\xe9" * 20])
def test_tokens_that_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(GsscError, match="token") as caught:
        read_token(str(tmp_path / "token"))
    assert content == "" or content not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="counts on Linux's accept queue")
def test_sigterm_resets_no_request(start_process, trained: Path) -> None:
    """Requests on new connections that waited to be accepted were reset: half of those sent as the signal came."""
    served = start_process(trained)
    body = json.dumps({"rows": [[0.5] * 8]})
    outcomes: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                outcomes.append(str(served.client.predict(body.encode()).status))
            except ConnectionRefusedError:
                over.set()  # the server accepts no more connections: the client gets an error, not a lost request
            except (OSError, http.client.HTTPException) as error:
                outcomes.append(repr(error))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    before = len(outcomes)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(30) == 0
    over.set()
    for thread in threads:
        thread.join()
    assert len(outcomes) > before
    failed = [outcome for outcome in outcomes if outcome != "200"]
    assert failed == []


def test_without_a_packet_filter_the_queue_is_cut() -> None:
    class OfAnotherUser(socket.socket):
        def setsockopt(self, *_: object) -> None:  # type: ignore[override]
            raise PermissionError(1, "Operation not permitted")

    with OfAnotherUser() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        server.refuse_connections(listener)
        with socket.create_connection(listener.getsockname()):
            crowd = socket.socket()
            crowd.settimeout(0.3)
            with crowd, pytest.raises(TimeoutError):  # one connection waits, and fills the queue
                crowd.connect(listener.getsockname())


def test_after_the_signal_every_answer_closes_its_connection(start_process, trained: Path) -> None:
    served = start_process(trained)
    connection = http.client.HTTPConnection("127.0.0.1", served.client.port, timeout=30)
    connection.request("GET", "/health")
    first = connection.getresponse()
    first.read()
    assert first.getheader("connection") is None
    served.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    connection.request("GET", "/health")
    assert connection.getresponse().getheader("connection") == "close"
    connection.close()
    assert served.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="bounds open files")
def test_few_open_files_are_a_warning(start_process, trained: Path) -> None:
    served = start_process(trained, open_files=100)
    assert any("warning: room for 36 connections, not 1,024" in line for line in served.output)
    silent = [socket.create_connection(("127.0.0.1", served.client.port), timeout=30) for _ in range(120)]
    assert served.client.get("/health").status == 200
    assert served.client.predict({"rows": [[0.5] * 8]}).status == 200
    for connection in silent:
        connection.close()
    assert served.stop() == 0


@pytest.mark.parametrize(("mode", "who"), [(0o644, "everyone"), (0o640, "its group"), (0o600, None)])
def test_a_token_that_others_can_read_is_a_warning(
    start_process, trained, tmp_path: Path, mode: int, who: str | None
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(mode)
    served = start_process(trained, "--token-file", "token")
    warned = [line for line in served.output if line.startswith("warning")]
    assert warned == ([] if who is None else [f"warning: token can be read by {who}: chmod 600 token\n"])
    assert served.stop() == 0


def test_a_pipe_is_no_token(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(GsscError, match="it is a pipe or a device"):
        read_token(str(tmp_path / "token"))

"""What arrives too long, too slowly, too often or not at all: sent to the server byte by byte."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

from gssc.deploy import DeployedModel
from gssc.serve import guard
from gssc.serve.protocol import MAX_HEAD, BoundedProtocol, LingeringTransport

ROW = b'{"rows": [[1, 2, 3]]}'


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        yield connection


def head(path: str = "/predict", **headers: Any) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass  # closed with bytes of ours unread
    return b"".join(parts)


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def send_until_closed(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send until the server refuses more; return the number of bytes sent."""
    sent = 0
    try:
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        return sent
    return sent


def test_an_announced_body_over_the_limit_is_refused_unread(live, model: DeployedModel) -> None:
    client = live(model, max_body_mb=0.1)
    for path in ("/predict", "/predict/file"):
        with connected(client.port) as connection:
            connection.sendall(head(path, content_length=10**9))
            answer = received(connection)
        assert status(answer) == 413
        assert b"connection: close" in answer
        assert b"the body is larger than 0.1 MB" in answer


@pytest.mark.parametrize("path", ["/predict", "/predict/file"])
def test_a_chunked_body_is_counted_as_it_comes(live, model: DeployedModel, path: str) -> None:
    client = live(model, max_body_mb=0.1)
    with connected(client.port) as connection:
        connection.sendall(head(path, transfer_encoding="chunked", content_type="text/csv"))
        send_until_closed(connection, b"2000\r\n" + b" " * 0x2000 + b"\r\n", 50 * 2**20)
        connection.shutdown(socket.SHUT_WR)
        assert status(received(connection)) == 413
    assert held(client) == 0
    assert client.predict(ROW).status == 200


def held(client: Any) -> int:
    """Bytes that the guard counts as held in memory, once every request has ended."""
    deadline = time.monotonic() + 10
    while client.app.in_flight and time.monotonic() < deadline:
        time.sleep(0.01)
    assert client.app.in_flight == 0
    return client.app.held


def test_a_short_chunked_body_is_fine(live, model: DeployedModel) -> None:
    client = live(model)
    with connected(client.port) as connection:
        connection.sendall(head(transfer_encoding="chunked", connection="close"))
        for byte in ROW:
            connection.sendall(b"1\r\n%c\r\n" % byte)
        connection.sendall(b"0\r\n\r\n")
        assert status(received(connection)) == 200


def test_a_body_that_does_not_come_is_not_waited_for_long(live, model: DeployedModel) -> None:
    client = live(model, timeout=0.3)
    with connected(client.port) as connection:
        connection.sendall(head(content_length=100) + ROW)
        answer = received(connection)
    assert status(answer) == 408
    assert b"the body did not arrive within 0.3 seconds" in answer
    assert held(client) == 0


def test_a_client_that_leaves_is_forgotten(live, model: DeployedModel) -> None:
    client = live(model)
    with connected(client.port) as connection:
        connection.sendall(head(content_length=100) + ROW)
        while not client.app.in_flight:
            time.sleep(0.005)
    assert held(client) == 0
    assert b'gssc_errors_total{path="/predict",status="400"} 1.0' in client.get("/metrics").body


def test_all_bodies_together_are_bounded(live, model: DeployedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "STALLED_SECONDS", 1e9)
    client = live(model, max_body_mb=0.1)
    part = b" " * 90_000
    with (
        connected(client.port) as a,
        connected(client.port) as b,
        connected(client.port) as c,
        connected(client.port) as d,
    ):
        for connection in (a, b, c, d):
            connection.sendall(head(content_length=100_000) + part)
        while client.app.held < 4 * len(part):
            time.sleep(0.005)
        refused = client.predict(b" " * 70_000)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert client.predict(ROW).status == 200
    assert held(client) == 0


def test_half_sent_bodies_leave_room_for_small_ones_and_for_tables(live, model, monkeypatch) -> None:
    """Four half-sent bodies of the largest size made every other request a 503 for as long as requests may take."""
    monkeypatch.setattr(guard, "STALLED_SECONDS", 1e9)
    client = live(model, max_body_mb=1, max_rows=100_000)
    half = head(content_length=2**20) + b" " * (2**20 - 10)
    table = b"1,2,3\n" * 20_000
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(client.port)).sendall(half)
        while client.app.held < 4 * 2**20 - 40:
            time.sleep(0.005)
        assert client.predict(b" " * 100_000).status == 503
        assert client.predict(b" " * 60_000 + ROW).status == 200
        assert client.send_file(table).status == 200
    assert held(client) == 0


@pytest.mark.parametrize("size", [70_000, 10])
def test_a_body_that_stopped_arriving_gives_way_when_room_is_needed(live, model, monkeypatch, size: int) -> None:
    monkeypatch.setattr(guard, "STALLED_SECONDS", 0.2)
    client = live(model, max_body_mb=0.1, max_concurrency=5)
    with ExitStack() as stack:
        stalled = [stack.enter_context(connected(client.port)) for _ in range(5)]
        for connection in stalled:
            connection.sendall(head(content_length=100_000) + b" " * size)
        while client.app.in_flight < 5:
            time.sleep(0.005)
        time.sleep(0.3)
        assert client.predict(b" " * 80_000 + ROW).status == 200
        answer = received(stalled[0])
        assert status(answer) == 408
        assert b"the body stopped arriving while others were waiting" in answer
    assert held(client) == 0


def test_more_at_once_than_allowed_are_asked_to_retry(live, model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "STALLED_SECONDS", 1e9)
    client = live(model, max_concurrency=2)
    with connected(client.port) as first, connected(client.port) as second:
        for connection in (first, second):
            connection.sendall(head(content_length=len(ROW), connection="close"))
        while client.app.in_flight < 2:
            time.sleep(0.005)
        refused = client.predict(ROW)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/model").status == 503
        assert client.get("/health").status == 200
        assert client.get("/metrics").status == 200
        for connection in (first, second):
            connection.sendall(ROW)
            assert status(received(connection)) == 200
    assert client.predict(ROW).status == 200


def test_silent_connections_keep_nobody_out(live, model: DeployedModel) -> None:
    """With the maximum number of connections open and silent, /health could not be reached."""
    client = live(model, max_concurrency=2)  # which makes eight connections
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(client.port)) for _ in range(30)]
        assert client.get("/health").status == 200
        assert client.predict(ROW).status == 200
        closed = [connection for connection in silent if readable(connection)]
    assert closed == silent[: len(closed)]  # those that had waited longest
    assert 22 <= len(closed) <= 24


def readable(connection: socket.socket) -> bool:
    """Whether the server has written to a connection, or closed it."""
    return bool(select.select([connection], [], [], 0.2)[0])


@pytest.mark.parametrize("path", ["/predict", "/predict/file"])
def test_a_client_that_sends_everything_first_still_reads_its_413(live, model: DeployedModel, path: str) -> None:
    """Closing while the client was sending reset the connection: many clients never saw why."""
    client = live(model, max_body_mb=0.1)
    for _ in range(5):
        answer = client.ask("POST", path, b" " * 20_000_000)
        assert answer.status == 413
        assert answer.detail == "the body is larger than 0.1 MB; send fewer rows at a time"


def test_a_client_that_never_stops_sending_is_cut_off(live, model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LingeringTransport, "seconds", 0.3)
    client = live(model, max_body_mb=0.1)
    with connected(client.port) as connection:
        connection.sendall(head(content_length=10**12))
        start = time.monotonic()
        send_until_closed(connection, b" " * 100_000, 10**12)
        assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("192.168.0.7:8000", 200),
        ("gssc.example.org:8000", 200),
        ("GSSC.example.org.", 200),
        ("evil.example.org", 421),
        ("127.0.0.1.evil.example.org", 421),
        ("[evil", 421),
    ],
)
def test_without_a_token_the_server_answers_to_its_own_names_only(live, model, host: str, expected: int) -> None:
    """A page in a browser on this machine could ask through a name of its own that leads here (DNS rebinding)."""
    client = live(model, hosts=["gssc.example.org"])
    assert client.ask("POST", "/predict", ROW, {"Host": host}).status == expected
    client = live(model, token="x" * 20)
    headers = {"Host": host, "Authorization": "Bearer " + "x" * 20}
    assert client.ask("POST", "/predict", ROW, headers).status == 200


def test_a_head_may_not_be_endless(live, model: DeployedModel) -> None:
    client = live(model)
    with connected(client.port) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nx-long: ")
        send_until_closed(connection, b"x" * 4096, 100 * MAX_HEAD)
        assert status(received(connection)) == 431


def test_trailers_may_not_be_endless(live, model: DeployedModel) -> None:
    client = live(model)
    with connected(client.port) as connection:
        connection.sendall(head(transfer_encoding="chunked") + b"1\r\n \r\n0\r\n")
        assert send_until_closed(connection, b"x-more: y\r\n" * 100, 100 * MAX_HEAD) < 100 * MAX_HEAD
    assert held(client) == 0


def test_a_head_that_does_not_come_is_not_waited_for(live, model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 0.2)
    client = live(model)
    with connected(client.port) as connection:
        assert status(received(connection)) == 408
    with connected(client.port) as connection:
        connection.sendall(head(content_length=len(ROW)) + ROW)
        assert status(connection.recv(1 << 16)) == 200
        connection.sendall(b"POST /pre")  # the second request of the connection stops in the middle
        assert status(received(connection)) == 408


def test_connections_are_kept_for_further_requests(live, model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 0.2)
    client = live(model)
    with connected(client.port) as connection:
        for pause in (0, 0, 0.5):
            time.sleep(pause)
            connection.sendall(head(content_length=len(ROW)) + ROW)
            assert status(connection.recv(1 << 16)) == 200


def test_requests_sent_in_one_go_are_answered_in_order(live, model: DeployedModel) -> None:
    client = live(model)
    bodies = [b'{"rows": [[%d, 0, 0]]}' % number for number in range(20)]
    requests = b"".join(head(content_length=len(body)) + body for body in bodies)
    with connected(client.port) as connection:
        connection.sendall(requests + head("/nothing", content_length=0, connection="close"))
        answer = received(connection)
    found = [float(first) for first in re.findall(rb'"probabilities":\[\[([0-9.e-]+),', answer)]
    expected = model.predict_proba(np.array([[number, 0, 0] for number in range(20)]))[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_nonsense_is_answered_and_survived(live, model: DeployedModel) -> None:
    client = live(model)
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"POST /predict HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
    ):
        with connected(client.port) as connection:
            connection.sendall(nonsense)
            assert status(received(connection)) == 400
    assert client.predict(ROW).status == 200


def test_a_client_that_does_not_read_holds_little_and_not_for_long(live) -> None:
    classes = 60
    model = DeployedModel([(np.ones((classes, 1)), np.zeros(classes))], [f"class-{n}" for n in range(classes)])
    client = live(model, timeout=3)
    body = b'{"rows": [' + b",".join([b"[1]"] * 9000) + b"]}"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(head(content_length=len(body)) + body)
        start = connection.recv(1024)
        assert status(start) == 200
        assert client.app.in_flight == 1
        assert held(client) == 0  # waits until the server gave up
        length = int(re.findall(rb"content-length: (\d+)", start)[0])
        assert length > 5 * 2**20
        assert len(start + received(connection)) < length
    assert client.predict(b'{"rows": [[1]]}').status == 200


def test_long_answers_count_until_they_are_read(live) -> None:
    """With one long answer waiting for its reader, there is no room for another, and there is once it left."""
    classes = 60
    model = DeployedModel([(np.ones((classes, 1)), np.zeros(classes))], [f"class-{n}" for n in range(classes)])
    client = live(model, max_body_mb=2)  # 8 MB in all; an answer has 6 at least
    body = b'{"rows": [' + b",".join([b"[1]"] * 6000) + b"]}"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(head(content_length=len(body)) + body)
        assert status(connection.recv(1024)) == 200
        assert client.app.held > 6 * 2**20
        assert client.predict(body).status == 503
        assert client.predict(b'{"rows": [[1]]}').status == 200
    assert held(client) == 0
    assert client.predict(body).status == 200


def test_shutdown_waits_for_requests_but_not_for_ever(model: DeployedModel, live) -> None:
    client = live(model)
    answers: list[int] = []

    def ask() -> None:
        with connected(client.port) as connection:
            connection.sendall(head(content_length=len(ROW)))
            time.sleep(0.5)
            connection.sendall(ROW)
            answers.append(status(received(connection)))

    thread = threading.Thread(target=ask)
    thread.start()
    while not client.app.in_flight:
        time.sleep(0.005)
    client.stop()
    thread.join()
    assert answers == [200]

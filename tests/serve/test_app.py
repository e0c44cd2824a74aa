from __future__ import annotations

import io
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gssc.deploy import DeployedModel, write_predictions
from gssc.errors import GsscError
from gssc.serve.limits import Limits

X = np.array([[1, 2, 3], [4, 5.5, -6]], dtype=np.float32)
CSV = b"id,a,b,c\nn0,1,2,3\nn1,4,5.5,-6\n"
TOKEN = "a-token-of-some-length"


def test_rows_in_predictions_out(client, small: DeployedModel) -> None:
    answer = client.predict({"rows": X.tolist()})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    content = answer.json
    assert list(content) == ["model", "class_names", "classes", "probabilities"]
    assert (content["model"], content["class_names"]) == ("m1", ["cat", "dog"])
    assert content["classes"] == small.predict(X).tolist()
    np.testing.assert_allclose(content["probabilities"], small.predict_proba(X), rtol=1e-5)


def test_sparse_rows_give_the_same(client) -> None:
    dense = client.predict({"rows": [[0, 2, 0], [0, 0, 0]]}).json
    sparse = client.predict({"indices": [[1], []], "values": [[2], []]}).json
    assert sparse["classes"] == dense["classes"]
    np.testing.assert_allclose(sparse["probabilities"], dense["probabilities"], rtol=1e-5)


def test_rows_by_name_give_the_same(live, small: DeployedModel) -> None:
    named = DeployedModel(small.layers, small.class_names, feature_names=["mean radius", "b", "c"])
    client = live(named)
    record = {"c": 2.0, "mean radius": 1.0, "b": 0.0, "id": 7}
    assert client.predict({"rows": [record]}).body == client.predict({"rows": [[1.0, 0.0, 2.0]]}).body
    schema = client.get("/openapi.json").json["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert [body["title"] for body in schema["schema"]["oneOf"]] == ["DenseRows", "SparseRows", "NamedRows"]
    assert client.predict(schema["examples"]["named"]["value"]).status == 200


def test_many_rows_in_one_request(client, small: DeployedModel) -> None:
    x = np.random.default_rng(1).random((5000, 3)).round(3)
    answer = client.predict({"rows": x.tolist()})
    assert len(answer.body) > 2**16
    np.testing.assert_allclose(answer.json["probabilities"], small.predict_proba(x), rtol=1e-4)


def test_wrong_rows_are_named(client) -> None:
    answer = client.predict(b'{"rows": [[1, 2, 3], [1, NaN, 3]]}')
    assert answer.status == 422
    assert answer.detail == "row 1, column 1 is nan; it must be finite and fit into float32"
    assert client.predict({"rows": [[3e38, 3e38, 3e38]]}).detail.startswith("row 0 has a NaN, infinite or far too")
    assert client.predict({"rows": [[0, 0, 0]] * 5001}).status == 413


def form(name: str, content: bytes, kind: str, field: str = "file") -> tuple[bytes, str]:
    head = f'--xx\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'
    return head.encode() + content + b"\r\n--xx--\r\n", "multipart/form-data; boundary=xx"


def parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


PARQUET = parquet({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "id": ["n0", "n1"]})


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (CSV, "text/csv"),
        (CSV, "text/csv; charset=utf-8"),
        (CSV, "application/octet-stream"),
        (CSV.replace(b",", b"\t"), "text/tab-separated-values"),
        (PARQUET, "application/vnd.apache.parquet"),
        (PARQUET, "application/octet-stream"),
        form("t.csv", CSV, "application/vnd.ms-excel"),
        form("../../t.tsv", CSV.replace(b",", b"\t"), "text/plain"),
        form("t", PARQUET, "application/octet-stream"),
    ],
)
def test_every_kind_of_file(client, small: DeployedModel, content: bytes, kind: str) -> None:
    answer = client.send_file(content, kind)
    assert answer.status == 200, answer.body
    assert answer.json["ids"] == ["n0", "n1"]
    np.testing.assert_allclose(answer.json["probabilities"], small.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("named", [True, False])
def test_tables_come_back_as_predict_writes_them(client, small, tmp_path: Path, suffix: str, named: bool) -> None:
    body = CSV if named else b"1,2,3\n4,5.5,-6\n"
    answer = client.send_file(body, query=f"?format={suffix}")
    assert answer.headers["content-disposition"] == f'attachment; filename="predictions.{suffix}"'
    ids = np.array(["n0", "n1"]) if named else None
    expected = tmp_path / f"expected.{suffix}"
    write_predictions(expected, small, small.predict_proba(X), ids)
    if suffix == "csv":
        assert answer.body == expected.read_bytes()
    else:
        assert pq.read_table(io.BytesIO(answer.body)).equals(pq.read_table(expected))


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"", "text/csv", 422, "the file is empty"),
        (b"p,q\n1,2\n", "text/csv", 422, "table.csv: rows have 2 features, but the model was trained on 3"),
        (CSV, "application/pdf", 415, "a file of type 'application/pdf' cannot be read"),
        (CSV, "multipart/form-data", 422, "Missing boundary"),
        (b"nothing", "multipart/form-data; boundary=xx", 422, "the form cannot be read"),
        (*form("t.csv", CSV, "text/csv", field="other"), 422, "the form has no file named 'file'"),
        (*form("t.csv", b"1,2,x\n1,2,y\n", "text/csv"), 422, "t.csv:2: column 'x' is 'y'"),
        (*form("/etc/passwd", b"x\ny\n", "text/csv"), 422, "passwd: rows have 1 feature"),
        (b"PAR1", "text/csv", 422, "cannot read table.parquet: "),
    ],
)
def test_files_that_are_wrong(client, content: bytes, kind: str, status: int, message: str) -> None:
    answer = client.send_file(content, kind)
    assert answer.status == status
    assert message in answer.detail


def test_decimal_commas_by_query(client) -> None:
    body = CSV.replace(b",", b";").replace(b".", b",")
    detail = client.send_file(body).detail
    assert "read decimal commas with ?decimal=, in the address" in detail
    assert "--decimal" not in detail
    answer = client.send_file(body, query="?decimal=,")
    assert answer.json["probabilities"] == client.send_file(CSV).json["probabilities"]
    assert client.send_file(CSV, query="?decimal=x").status == 422


def test_wrong_format(client) -> None:
    answer = client.send_file(CSV, query="?format=xlsx")
    assert (answer.status, answer.detail) == (422, "query.format: Input should be 'json', 'csv' or 'parquet'")


def test_model_card(client, small: DeployedModel) -> None:
    card = client.get("/model").json
    assert (card["model"], card["features"], card["class_names"]) == ("m1", 3, ["cat", "dog"])
    assert card["metadata"] == {"dataset": "pets"}
    assert card["card"] == "# Model card: pets\n"
    assert card["parameters"] == 4 * 3 + 4 + 2 * 4 + 2
    assert card["limits"] == {"max_rows": 5000, "max_body_bytes": 2**20, "timeout": 30}


def test_schema_has_the_model_s_numbers_and_examples_that_work(client) -> None:
    schema = client.get("/openapi.json").json
    assert set(schema["paths"]) == {"/predict", "/predict/file", "/model", "/health", "/metrics"}
    body = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    dense, sparse = body["schema"]["oneOf"]
    assert dense["properties"]["rows"]["items"]["maxItems"] == 3
    assert sparse["properties"]["indices"]["items"]["items"]["maximum"] == 2
    assert set(body["examples"]) == {"dense", "sparse"}
    for example in body["examples"].values():
        assert client.predict(example["value"]).status == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_bring_everything_with_them(client, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].count("sha256-") == 2
    assert not re.search(rb"""(src|href)\s*=\s*["']?(https?:)?//|url\(|@import""", answer.body)


def test_everything_is_counted(live, model: DeployedModel) -> None:
    client = live(model)
    for _ in range(3):
        client.predict({"rows": X.tolist()})
    client.predict({"rows": []})
    client.get("/nothing/here")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = dict(line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line[0] != "#")
    assert float(found['gssc_requests_total{path="/predict",status="200"}']) == 3
    assert float(found['gssc_errors_total{path="/predict",status="422"}']) == 1
    assert float(found['gssc_errors_total{path="other",status="404"}']) == 1
    assert float(found['gssc_request_seconds_count{path="/predict"}']) == 4
    assert float(found["gssc_rows_total"]) == 6
    assert float(found["gssc_batch_rows_sum"]) == 6
    assert float(found["gssc_requests_in_flight"]) == 1


def test_token(live, model: DeployedModel) -> None:
    client = live(model, token=TOKEN)
    for method in ("GET", "HEAD"):  # load balancers ask for the head alone
        assert [client.ask(method, path).status for path in ("/health", "/", "/docs")] == [200, 200, 200]
    assert b"dog" not in client.get("/").body + client.get("/docs").body
    rows = {"rows": X.tolist()}
    for wrong in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN},
                  {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer \xe9"}):  # fmt: skip
        answer = client.predict(rows, **wrong)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert TOKEN not in answer.detail
        for path in ("/model", "/metrics", "/openapi.json", "/nothing"):
            assert client.get(path, **wrong).status == 401
        assert client.ask("POST", "/predict/file", CSV, wrong).status == 401
    right = {"Authorization": f"bearer {TOKEN}"}
    assert client.predict(rows, **right).status == 200
    assert client.get("/model", **right).status == 200
    schema = client.get("/openapi.json", **right).json
    assert schema["paths"]["/predict"]["post"]["security"] == [{"token": []}]
    assert "401" in schema["paths"]["/predict"]["post"]["responses"]
    assert "security" not in schema["paths"]["/health"]["get"]


def test_several_classes_per_row(live) -> None:
    eye = np.eye(3, dtype=np.float32)
    client = live(DeployedModel([(eye, np.zeros(3))], ["a", "b", "c"], task="multilabel"))
    assert client.predict({"rows": [[5, -5, 5], [-5, -5, -5]]}).json["classes"] == [[0, 2], []]
    assert b"0,a;c," in client.send_file(b"5,-5,5\n", query="?format=csv").body
    predictions = client.get("/openapi.json").json["paths"]["/predict"]["post"]["responses"]["200"]
    assert predictions["content"]["application/json"]["schema"]["properties"]["classes"]["items"]["type"] == "array"


def test_many_at_once_get_each_their_own(client, small: DeployedModel) -> None:
    rows = np.random.default_rng(2).random((200, 3)).round(3)
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda row: client.predict({"rows": [row.tolist()]}).json["probabilities"][0], rows))
    np.testing.assert_allclose(answers, small.predict_proba(rows), rtol=1e-4)


def test_a_mistake_of_ours_is_500_and_the_next_request_works(live, model, monkeypatch, capfd) -> None:
    client = live(model)
    predict = model.predict_proba
    monkeypatch.setattr(model, "predict_proba", lambda x: 1 / 0)
    answer = client.predict({"rows": X.tolist()})
    assert (answer.status, answer.detail) == (500, "internal server error; the log has the details")
    assert "ZeroDivisionError" in capfd.readouterr().err
    monkeypatch.setattr(model, "predict_proba", predict)
    assert client.predict({"rows": X.tolist()}).status == 200


def test_an_answer_that_takes_too_long_is_given_up(live, model, monkeypatch) -> None:
    client = live(model, timeout=0.2)
    predict = model.predict_proba

    def slow(x: Any) -> np.ndarray:
        time.sleep(0.6)
        return predict(x)

    monkeypatch.setattr(model, "predict_proba", slow)
    answer = client.predict({"rows": np.ones((2000, 3)).tolist()})  # more than a batch, so in a thread
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.detail.startswith("no answer within 0.2 seconds")
    assert client.get("/health").status == 200


@pytest.mark.parametrize("name", ["max_rows", "max_body_mb", "timeout", "max_concurrency"])
def test_limits_must_make_sense(name: str) -> None:
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(GsscError, match=f"--{name.replace('_', '-')} is"):
            Limits(**{name: value})
    with pytest.raises(GsscError, match="--batch-wait-ms"):
        Limits(batch_wait_ms=-1)


def test_answers_are_json_that_others_read_too(client) -> None:
    body = client.send_file(CSV).body
    assert json.loads(body)["ids"] == ["n0", "n1"]
    assert b"NaN" not in body

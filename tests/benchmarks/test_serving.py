import pytest
import serving


def test_both_servers_answer_every_request(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serving, "CASES", {"one dense row": {"widths": [3, 4, 2]}})
    options = ["--requests", "50", "--seconds", "0.2", "--connections", "4", "--load-with", "python"]
    results = serving.main([*options, "--out", str(tmp_path / "new" / "serving.md")])
    for server in results["one dense row"]:
        assert server.total("requests") >= 50
        assert server.total("errors") == 0
        assert 0 < server.middle("p50") <= server.middle("p99")
    text = (tmp_path / "new" / "serving.md").read_text()
    assert "python benchmarks/serving.py" in text
    assert text.count("| gssc serve |") == text.count("| bare FastAPI, empty endpoint |") == 1
    assert capsys.readouterr().out.strip() in text


@pytest.mark.parametrize("title", serving.CASES)
def test_the_bodies_are_what_the_api_takes(tmp_path, title):
    from gssc.serve.json_rows import parse
    from gssc.serve.limits import Limits

    body = serving.make_case(tmp_path, **serving.CASES[title])
    assert len(parse(body, serving.CASES[title]["widths"][0], None, Limits())) == 1

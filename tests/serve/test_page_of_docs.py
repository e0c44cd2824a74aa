"""The curl lines of docs/serving.md, sent by curl to a running server."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
LINES = [
    line
    for block in re.findall(r"<!-- server -->\n```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("line", LINES)
def test_every_line_is_answered(client, tmp_path: Path, line: str) -> None:
    (tmp_path / "rows.csv").write_text("id,a,b,c\n7,0.1,0.7,0.2\n8,1,0,0\n")
    words = shlex.split(line.replace("localhost:8000", f"127.0.0.1:{client.port}"))
    done = subprocess.run([*words, "-sS", "--fail-with-body"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cat" in done.stdout


def test_there_are_lines_to_try() -> None:
    assert len(LINES) == 4

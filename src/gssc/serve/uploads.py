"""Find the table in the body of ``POST /predict/file`` and its format; nothing is written to disk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import PurePosixPath
from typing import NamedTuple

from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from gssc.serve.limits import Refused

KINDS = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
MAGIC = b"PAR1"
LONGEST_NAME = 60


class Upload(NamedTuple):
    """A table as it was sent."""

    kind: str
    name: str
    content: bytes


async def take(headers: Headers, body: bytes) -> Upload:
    """Return the table in a body: the body itself, or the one file of a form.

    The file name or content type distinguishes CSV from TSV; Parquet is recognised by its first bytes.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    name = ""
    if content_type == "multipart/form-data":
        content_type, name, body = await _file_of_form(headers, body)
    suffix = PurePosixPath(name).suffix.lower().removeprefix(".")
    if body[:4] == MAGIC:
        kind: str | None = "parquet"
    else:
        kind = suffix if suffix in KINDS.values() else KINDS.get(content_type)
        if kind is None and content_type in ("", "application/octet-stream", "application/vnd.ms-excel"):
            kind = "csv"  # the default of clients without a better type; browsers on Windows send Excel's
    if kind is None:
        raise Refused(415, f"a file of type {content_type[:60]!r} cannot be read; send CSV, TSV or Parquet")
    if not body:
        raise Refused(422, "the file is empty")
    return Upload(kind, _shown(name) or f"table.{kind}", body)


async def _file_of_form(headers: Headers, body: bytes) -> tuple[str, str, bytes]:
    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(headers, whole(), max_files=1, max_fields=8, max_part_size=1 << 16)
    parser.spool_max_size = len(body) + 1  # the body is in memory already; its part may be, too
    try:
        form = await parser.parse()
    except (MultiPartException, FormParserError) as error:  # starlette before 1.0 lets the parser's own errors through
        raise Refused(422, f"the form cannot be read: {getattr(error, 'message', error)}") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Refused(422, "the form has no file named 'file'")
        return (file.content_type or "").lower(), file.filename or "", await file.read()
    finally:
        await form.close()


def _shown(name: str) -> str:
    """Return the last part of a path without unprintable characters, short enough for a message."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable())[-LONGEST_NAME:]

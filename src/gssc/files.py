"""Files that are complete or absent: checks before the work, careful reads, atomic writes, digests."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from gssc.errors import GsscError
from gssc.extras import require

# Errors of a full disk, a full quota, and a file larger than allowed.
NO_ROOM = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it takes the place of ``path`` in one step.

    A reader sees the old file or the new one, never a part, even if the process is killed or the machine
    loses power: the content is on disk before the rename, and the rename before this returns. When the
    body raises, the temporary file is removed and ``path`` is as it was; on the command line a signal
    that ends the process raises, too (:mod:`gssc.signals`). The temporary name keeps the suffix of
    ``path``, because some writers choose their format by it. A process killed by SIGKILL leaves its
    temporary file behind: a hidden one, ``.name.*``, safe to delete.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "note.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "note.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(6)}{path.suffix}")
    try:  # a signal may come right after the file has begun to exist, so creating it belongs here
        try:
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise GsscError(f"cannot write {path}: {error.strerror or error}") from error
        with room_for(path):
            yield temporary
        try:
            sync(temporary)
            temporary.replace(path)
        except OSError as error:
            advice = "; make room on the disk and try again" if error.errno in NO_ROOM else ""
            raise GsscError(f"cannot write {path}: {error.strerror or error}{advice}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Raise errors of a full disk or quota while ``path`` is written as a GsscError that names it."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise GsscError(f"cannot write {path}: {error.strerror}; make room on the disk and try again") from error
        raise


def keep_others_out(folder: Path) -> int | None:
    """Lock a folder until this process ends or closes the returned handle; raise GsscError if it is locked already.

    Where the system has no such locks for folders, no process is kept out and None is returned.
    """
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise GsscError(f"another process is at work in {folder}; wait for it or choose another folder") from None
    except OSError:
        os.close(handle)
        return None
    return handle


def check_output(path: str | Path, suffixes: Iterable[str], overwrite: bool = False) -> Path:
    """Raise GsscError if a result cannot be written to ``path``; called before the work, not after it."""
    path, suffix = Path(path), Path(path).suffix.lower()
    if suffix not in suffixes:
        raise GsscError(f"cannot write {path}: its name must end in one of {', '.join(suffixes)}")
    if path.is_dir():
        raise GsscError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise GsscError(f"cannot write {path}: there is no folder {path.parent}; create it or choose another")
    if path.exists() and not overwrite:
        raise GsscError(f"{path} exists already: choose another name or add --overwrite")
    if suffix == ".parquet":
        require("pyarrow", extra="tables")
    return path


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """Return the content of a regular file.

    A pipe or a device, which may never end, is refused, and so is a file of more than ``most`` bytes. A missing file
    stays a FileNotFoundError, because its meaning depends on the caller.
    """
    path = Path(path)
    try:
        size = require_regular(path)
        if most is not None and size > most:
            raise GsscError(f"cannot read {path}: it has {size:,} bytes, more than the {most:,} allowed here")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise GsscError(f"cannot read {path}: {error.strerror or error}") from None


def require_regular(path: Path) -> int:
    """Return the size of a regular file in bytes; refuse a folder, and a pipe or a device, which may never end."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise GsscError(f"cannot read {path}: it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise GsscError(f"cannot read {path}: it is a pipe or a device, not a file; copy its content into a file")
    return found.st_size


def require_file(path: Path) -> None:
    """Raise GsscError unless a path is a regular file: it may be missing, a folder, a pipe or a device."""
    try:
        require_regular(path)
    except FileNotFoundError:
        raise GsscError(f"{path} does not exist: check the path") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the JSON object in a file; raises :class:`GsscError` for anything that cannot be written as JSON again.

    That excludes NaN and infinity, which Python would read, and halves of surrogate pairs, which no text can hold.
    """
    content = read_bytes(path)
    try:
        found = json.loads(content, parse_constant=_refuse_constant)
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise GsscError(f"{path} is nested too deeply to be read; copy it again") from None
    except ValueError as error:
        raise GsscError(f"{path} is not JSON: {error}; copy it again") from None
    if not isinstance(found, dict):
        raise GsscError(f"{path} is not a JSON object; copy it again")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


def sha256(path: str | Path) -> str:
    """Return the hex digest of a file's content, read in pieces."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically. NaN and infinity, which JSON lacks, are refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def json_number(value: float, digits: int | None = 6) -> float | None:
    """Return a number as JSON can hold it, rounded: None for NaN and infinity.

    >>> json_number(1 / 3), json_number(float("nan"))
    (0.333333, None)
    """
    if not math.isfinite(value):
        return None
    return value if digits is None else round(value, digits)


def sync(path: Path) -> None:
    """Push a file's content, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

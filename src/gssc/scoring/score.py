"""Score a table or a folder of tables into a folder of part files with a manifest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.evaluate.executor import Executor, LocalProcesses
from gssc.extras import require
from gssc.files import keep_others_out, read_json, write_json
from gssc.scoring.parts import ROWS_PER_PART, ROWS_PREFIX, FileJob, all_parts_of, digest_of_model, head_of, score_file
from gssc.text_tables import PARQUET_ENDINGS, TEXT_ENDINGS, ending

MANIFEST = "_manifest.json"  # readers of Parquet folders ignore names that begin with _
PARTS = "part-*.parquet"
FORMAT = "gssc-scores"


@dataclass
class Scores:
    """The result: numbers of rows, input files and parts, and the seconds of this call."""

    rows: int
    files: int
    parts: int
    seconds: float


def score(
    run: str | Path,
    source: str | Path,
    out: str | Path,
    executor: Executor | None = None,
    overwrite: bool = False,
    rows_per_part: int = ROWS_PER_PART,
    on_file: Callable[[dict[str, Any], int], None] | None = None,
    decimal: str = ".",
) -> Scores:
    """Predict every row of a table, or of every table in a folder, into Parquet files in another folder.

    After a crash the same call continues after the last whole part; no row is lost or written twice. The
    parts in the order of their names hold the rows in the order of the input, files in the order of their names.

    Args:
        run: folder of the model.
        source: ``.parquet``, ``.csv``, ``.tsv`` or ``.txt`` (text also ``.gz``), or a folder with such files.
        out: folder of the parts and of ``_manifest.json``.
        executor: where files are scored; a process of this machine if left out.
        overwrite: replace the scores in ``out``.
        rows_per_part: rows of every part but a file's last.
        on_file: called with the result of each file and the number of files.
        decimal: decimal mark in text tables, a point or a comma.
    """
    started = time.monotonic()
    require("pyarrow.parquet", extra="tables")
    source, out = Path(source), Path(out)
    files = input_files(source, out)
    key = common_key(run, files, decimal)
    digest = digest_of_model(run)
    about = {"format": FORMAT, "model": digest, "files": [name for name, _ in files]}
    _check_folder(out, about, overwrite)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GsscError(f"cannot write to {out}: {error.strerror}") from None
    lock = keep_others_out(out)
    try:
        if overwrite:
            _clear(out)
        write_json(out / MANIFEST, {**about, "complete": False})
        model, folder = (os.fspath(Path(each).absolute()) for each in (run, out))
        jobs = [
            FileJob(
                model,
                os.fspath(path.absolute()),
                name,
                number,
                folder,
                source.is_dir(),
                rows_per_part,
                decimal,
                key,
                digest,
            )
            for number, (name, path) in enumerate(files)
        ]
        _run(executor or LocalProcesses(score_file), jobs, on_file)
        parts = [
            {"part": job.part(number).name, "file": note["name"], "start": note["start"], "rows": note["rows"]}
            for job in jobs
            for number, note in enumerate(all_parts_of(job))
        ]
        rows = sum(part["rows"] for part in parts)
        for left in (*out.glob(f".{PARTS}"), *out.glob(f"{ROWS_PREFIX}*")):  # of a killed process
            left.unlink()
        write_json(out / MANIFEST, {**about, "complete": True, "rows": rows, "parts": parts})
    finally:
        if lock is not None:
            os.close(lock)
    return Scores(rows, len(files), len(parts), time.monotonic() - started)


def _run(executor: Executor, jobs: list[FileJob], on_file: Callable[[dict[str, Any], int], None] | None) -> None:
    """Score what is missing; files that fail are reported at the end, so that the others are scored anyway."""
    errors = []
    for finished in executor.run(jobs, lambda job: None):
        if finished.error:
            errors.append(finished.error)
        elif on_file:
            on_file(finished.result, len(jobs))
    if errors:
        more = f" ({len(errors)} of {len(jobs)} files failed)" if len(jobs) > 1 else ""
        raise GsscError(f"{errors[0]}{more}; fix it and repeat the command")


def input_files(source: Path, out: Path) -> list[tuple[str, Path]]:
    """Return the tables of the input by name, sorted."""
    known = (*PARQUET_ENDINGS, *TEXT_ENDINGS)
    if source.is_file():
        if ending(source) not in known:
            raise GsscError(f"cannot score {source}: its name must end in one of {', '.join(known)} (text also .gz)")
        return [(source.name, source)]
    if not source.is_dir():
        kind = "it is a pipe or a device" if source.exists() else "there is no such file or folder"
        raise GsscError(f"cannot read {source}: {kind}")
    if out.resolve().is_relative_to(source.resolve()):
        raise GsscError(f"{out} lies in {source}: scores would become input; choose a folder elsewhere")
    found = []
    for path in source.rglob("*"):
        name = path.relative_to(source).as_posix()
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(source).parts)
        if path.is_file() and not hidden and ending(path) in known:
            found.append((name, path))
    if not found:
        raise GsscError(f"{source} holds no table: none of its files ends in {', '.join(known)} (text also .gz)")
    return sorted(found)


def common_key(run: str | Path, files: list[tuple[str, Path]], decimal: str) -> str | None:
    """Return the type of the ids in all parts, so that these are one table: as in the files, or text if they differ.

    Raises GsscError if only some of the files have ids, and if the model has no feature names and the names of the
    features differ between files: nothing would show which column is which. Files that cannot be read are left out,
    because their own job reports them.
    """
    pa = require("pyarrow", extra="tables")
    wanted, heads = DeployedModel.load(run).feature_names, {}
    for name, path in files:
        with suppress(GsscError, OSError, UnicodeDecodeError, pa.ArrowException):
            heads[name] = head_of(path, wanted, decimal)
    with_ids, without = ([name for name in heads if bool(heads[name].key) == ids] for ids in (True, False))
    if with_ids and without:
        raise GsscError(
            f"{with_ids[0]} has a column of ids and {without[0]} has none; score them into separate folders"
        )
    named = [name for name in heads if heads[name].features is not None]
    other = [name for name in named if heads[name].features != heads[named[0]].features]
    if wanted is None and other:
        raise GsscError(
            f"{named[0]} and {other[0]} have feature columns of other names or in another order, and the model has no "
            "names to find them by; give them the same columns, or score them into separate folders"
        )
    kinds = {head.key for head in heads.values()}
    if len(kinds) > 1:
        return "string" if kinds & {"string", "uint64"} else "int64"
    return kinds.pop() if kinds else None


def _check_folder(out: Path, about: dict[str, Any], overwrite: bool) -> None:
    """Raise GsscError if a folder holds anything but an unfinished result of the same scoring."""
    if not out.exists() or not any(out.iterdir()):
        return
    manifest = out / MANIFEST
    before = read_json(manifest) if manifest.is_file() else {}
    if before.get("format") != FORMAT:
        if all(item.name.startswith("._manifest.") for item in out.iterdir()):  # left by a kill at the very start
            return
        raise GsscError(f"{out} is not empty and holds no scores of gssc; choose another folder")
    if overwrite:
        return
    for what, where in (("model", "by another model"), ("files", "of other files")):
        if before.get(what) != about[what]:
            raise GsscError(f"{out} holds scores {where}; choose another folder or add --overwrite")


def _clear(out: Path) -> None:
    (out / MANIFEST).unlink(missing_ok=True)
    for part in (*out.glob(PARTS), *out.glob(f".{PARTS}"), *out.glob(f"{ROWS_PREFIX}*")):
        part.unlink()

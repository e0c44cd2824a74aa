"""Find the files of a dataset in the data root, then in the cache, else download them; digests are always checked."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from http.client import HTTPException
from os import PathLike
from pathlib import Path

from gssc.data.entry import Dataset, File, FilePaths
from gssc.errors import GsscError
from gssc.files import atomic_write, sha256
from gssc.progress_bar import ProgressBar

_TIMEOUT_SECONDS = 30
MEGABYTE = 1e6


def data_root_of(data_root: str | PathLike[str] | None) -> Path | None:
    """Return the folder of published files: the argument, else GSSC_DATA_ROOT, else None."""
    given = data_root or os.environ.get("GSSC_DATA_ROOT") or None
    if given is None:
        return None
    root = Path(given).expanduser()
    if not root.is_dir():
        raise GsscError(f"data root {root} is not a folder: check --data-root or GSSC_DATA_ROOT")
    return root


def cache_root() -> Path:
    """Return the download folder: GSSC_CACHE, else ~/.cache/gssc."""
    given = os.environ.get("GSSC_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "gssc"


def locate(dataset: Dataset, file: File, data_root: Path | None) -> Path | None:
    """Return the path of a file in the data root or the cache; None if it is in neither."""
    roots = ([data_root] if data_root else []) + [cache_root()]
    candidates = [root / dataset.name / file.name for root in roots]
    return next((path for path in candidates if path.is_file()), None)


def at_hand(dataset: Dataset, data_root: Path | None) -> tuple[FilePaths, tuple[File, ...]]:
    """Return the first complete set of files, or `dataset.files` if none is complete, with the paths that exist."""
    for files in (dataset.files, *dataset.alternatives):
        paths = _existing(dataset, files, data_root)
        if all(file.name in paths or file.optional for file in files):
            return paths, files
    return _existing(dataset, dataset.files, data_root), dataset.files


def _existing(dataset: Dataset, files: tuple[File, ...], data_root: Path | None) -> FilePaths:
    paths = {file.name: locate(dataset, file, data_root) for file in files}
    return {name: path for name, path in paths.items() if path is not None}


def fetch(dataset: Dataset, data_root: str | PathLike[str] | None = None) -> FilePaths:
    """Return the verified path of each of a dataset's files, downloading what is missing."""
    if not dataset.files:  # generated, so there is nothing to find
        return {}
    root = data_root_of(data_root)
    paths, files = at_hand(dataset, root)
    for file in files:
        if file.name in paths:
            verify(paths[file.name], file)
    missing = [file for file in files if file.name not in paths and not file.optional]
    if missing:
        paths.update(_download(dataset, missing, root))
    return paths


def verify(path: Path, file: File) -> None:
    """Raise GsscError unless the SHA-256 of the file is that of the published one."""
    if file.sha256 is None:
        return
    try:
        digest = sha256(path)
    except OSError as error:
        raise GsscError(f"{path} cannot be read ({error.strerror}): check its permissions") from None
    if digest != file.sha256:
        raise GsscError(
            f"{path} is not the published file: its SHA-256 is {digest[:12]}..., expected {file.sha256[:12]}...; "
            f"delete it, or put the file from {file.url} in its place"
        )


def _download(dataset: Dataset, files: list[File], data_root: Path | None) -> FilePaths:
    folder = cache_root() / dataset.name
    by_hand = f"{data_root / dataset.name} or {folder}" if data_root else str(folder)
    got: FilePaths = {}
    with ProgressBar("downloading") as bar:
        for file in files:
            left = ", ".join(other.name for other in files if other.name not in got)
            advice = f"get {left} from {dataset.address} by hand and put them into {by_hand}"
            if file.url is None:
                raise GsscError(f"{dataset.name}: {file.name} was not found and has no public URL: {advice}")
            target = folder / file.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(target) as temporary:
                    _download_file(file.url, temporary, bar, f"downloading {file.name}")
                    verify(temporary, file)
            except GsscError as error:
                raise GsscError(f"{dataset.name}: download of {file.url} failed: {error}; or {advice}") from None
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None) or error
                raise GsscError(f"{dataset.name}: could not download {file.url} ({reason}): {advice}") from None
            got[file.name] = target
    return got


def _download_file(url: str, path: Path, bar: ProgressBar, phase: str) -> None:
    """Write the content of a URL to a file. Raises HTTPException if it is shorter than the server announced."""
    bar.begin(phase)
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, path.open("wb") as out:
        length = response.headers.get("Content-Length")
        bar.begin(phase, int(length) / MEGABYTE if length else None, "MB")
        while piece := response.read(1 << 18):
            out.write(piece)
            bar.advance(len(piece) / MEGABYTE)
    if length and path.stat().st_size != int(length):
        raise HTTPException("the connection closed before the end of the file")

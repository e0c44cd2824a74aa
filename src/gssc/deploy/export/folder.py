"""An export folder: written next to its destination, compared with the model, then moved there in one step."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gssc.deploy.export.card import CARD, write_card
from gssc.deploy.export.run_model import read_run_model
from gssc.deploy.model import DeployedModel
from gssc.errors import GsscError
from gssc.names import nearest

# A format is a module with `write(run_model, folder)`, `outputs(folder, rows)` -> logits and probabilities, and `USE`.
FORMATS = {
    "onnx": "gssc.deploy.export.onnx_format",
    "numpy": "gssc.deploy.export.numpy_format",
    "torch": "gssc.deploy.export.torch_format",
    "card": None,
}
# Only a folder with nothing else in it is ever replaced.
OWN_FILES = {
    CARD,
    "model.onnx",
    "model_sparse.onnx",
    "model.json",
    "model.safetensors",
    "predict.py",
    "model.py",
    "model.npz",
    "fields.py",
    "environments.py",
    "__pycache__",
}
TOLERANCE = 1e-5
ROWS_COMPARED = 64


class Export(NamedTuple):
    """The files of an export, and how much its outputs differ from those of the trained model.

    Attributes:
        folder: folder of the export.
        files: files in it.
        difference: largest difference of a logit or probability from the trained model's; None if none was compared.
        tolerance: maximum allowed difference; None if none was compared.
    """

    folder: Path
    files: list[Path]
    difference: float | None = None
    tolerance: float | None = None

    @property
    def checked(self) -> str:
        """The result of the comparison in one sentence; empty if nothing was compared."""
        if self.difference is None or self.tolerance is None:
            return ""
        return (
            f"Logits and probabilities of {ROWS_COMPARED} generated rows differ by at most {self.difference:.1g} from "
            f"those of the trained model (tolerance {self.tolerance:.1g})."
        )


def export_run(run: str | Path, format: str, out: str | Path | None = None, overwrite: bool = False) -> Export:
    """Write the model of a finished run for another program to use, with a model card.

    Args:
        run: a run folder, or any folder with ``model.json`` and ``model.safetensors``.
        format: one of :data:`FORMATS`.
        out: folder to write; ``export-FORMAT`` within the run if left out.
        overwrite: replace an earlier export there.
    """
    if format not in FORMATS:
        raise GsscError(f"unknown format {format!r}: {nearest(format, FORMATS)}")
    out = export_folder(run, format) if out is None else Path(out)
    run_model = read_run_model(run)
    check_free(out, overwrite)
    place = FORMATS[format]
    module = import_module(place) if place else None
    export = Export(out, [])
    with temporary_folder(out) as temporary:
        if module:
            module.write(run_model, temporary)
            outputs = module.outputs(temporary, rows_to_compare(run_model.model))
            export = Export(out, [], *compare(run_model.model, *outputs))
        write_card(run_model, temporary, f"{module.USE}\n{export.checked}" if module else "")
    return export._replace(files=sorted(out.iterdir()))


def export_folder(run: str | Path, format: str) -> Path:
    """Return the default folder of an export."""
    return Path(run) / f"export-{format}"


def exports_in(run: Path) -> list[Path]:
    """Return the exports within a run folder; raises if one holds anything else, since they may be deleted."""
    found = [place for place in (export_folder(run, format) for format in FORMATS) if place.exists()]
    for place in found:
        check_free(place, overwrite=True)
    return found


def check_free(out: Path, overwrite: bool) -> None:
    """Refuse a place that is taken, and even with ``overwrite`` one that holds anything but an export."""
    if not out.exists() and not out.is_symlink():
        return
    if not overwrite:
        raise GsscError(f"{out} exists already: choose another folder with --out or add --overwrite")
    if out.is_symlink() or not out.is_dir():
        raise GsscError(f"cannot replace {out}: it is not a folder; choose another with --out")
    names = {item.name for item in out.iterdir()}
    if foreign := sorted(names - OWN_FILES):
        raise GsscError(f"cannot replace {out}: {foreign[0]} in it is not from an export; choose another with --out")
    if names and CARD not in names:
        raise GsscError(f"cannot replace {out}: it has no {CARD}, so it is not an export; choose another with --out")


@contextmanager
def temporary_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder beside ``out`` to write to; it is put in place at the end, or removed after an error."""
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(6)}")
    try:  # a signal may come right after the folder has begun to exist, so creating it belongs here
        try:
            temporary.mkdir(parents=True)
        except OSError as error:
            raise GsscError(f"cannot write {out}: {error.strerror}") from None
        yield temporary
        put(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def put(temporary: Path, out: Path) -> None:
    """Move a finished folder to its place; the old one is removed only once the new one is in place."""
    old = out.with_name(f".{out.name}.{secrets.token_hex(6)}")
    if out.exists():
        out.rename(old)
    try:
        temporary.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def rows_to_compare(model: DeployedModel) -> np.ndarray:
    """Return generated rows in which a fifth of the values are not zero; the first row is all zeros."""
    rng = np.random.default_rng(0)
    shape = ROWS_COMPARED, model.widths[0]
    rows = (rng.random(shape) < 0.2) * rng.standard_normal(shape)
    rows[0] = 0
    return rows.astype(np.float32)


def compare(model: DeployedModel, logits: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """Return the largest difference of an output from the trained model's, and the tolerance it must not exceed."""
    rows = rows_to_compare(model)
    expected = model.logits(rows)
    differences = np.abs(logits - expected).max(), np.abs(probabilities - model.predict_proba(rows)).max()
    largest = float(max(differences))
    # Rounding errors of float32 grow with the logits.
    tolerance = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if not largest <= tolerance:
        raise RuntimeError(f"the export differs from the model by {largest:.1e}, more than {tolerance:.0e}")
    return largest, tolerance

"""Read the model of a finished run, and what the run recorded about it, for export."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from gssc.deploy.model import DeployedModel
from gssc.deploy.store import DESCRIPTION, why_no_model
from gssc.errors import GsscError
from gssc.files import read_json
from gssc.settings import read_settings


@dataclass
class RunModel:
    """A model and what its run recorded.

    Attributes:
        folder: the folder that both were read from.
        model: the deployed MLP, batch norm folded in.
        digest: digest of the model's description, weights included; see :mod:`gssc.deploy.store`.
        metrics: content of ``metrics.json``; empty for a model that was saved without a run.
        settings: content of ``config.yaml``; empty for a model that was saved without a run.
    """

    folder: Path
    model: DeployedModel
    digest: str
    metrics: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def read_run_model(folder: str | Path) -> RunModel:
    """Return the model of a finished run, or of a folder with a model alone. Raises GsscError for any other folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise GsscError(f"{folder} is not a run: there is no such folder")
    config, result = folder / "config.yaml", folder / "metrics.json"
    if config.exists() and not result.exists():
        raise GsscError(f"{folder} is not finished: resume it with gssc train --out {quote(str(folder))} --resume")
    if not (folder / DESCRIPTION).exists():
        raise GsscError(f"{folder} has no model that works alone: {why_no_model(folder)}")
    model = DeployedModel.load(folder)
    metrics, settings = read_json(result) if result.exists() else {}, read_settings(config) if config.exists() else {}
    for path, name, part in (
        (result, "versions", metrics.get("versions")),
        *((config, name, part) for name, part in settings.items()),
    ):
        if not isinstance(part, dict | None):
            raise GsscError(f"{path}: {name!r} must hold named values, not {part!r}; copy the run again")
    return RunModel(folder, model, str(read_json(folder / DESCRIPTION)["digest"]), metrics, settings)

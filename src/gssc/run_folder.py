"""The files of a run in its folder, and how a new run takes the place of an old one.

A run that replaces another trains in the hidden folder ``.new`` within it. Until it is finished, the old run stays as
it is, so that a new one that diverges or is interrupted costs nothing. A finished one is renamed to ``.done``, in one
step, and its files then replace the old ones; the next process that opens the folder completes an interrupted move.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gssc.config import RunConfig, parse_config
from gssc.deploy.export.folder import exports_in
from gssc.errors import GsscError
from gssc.files import atomic_write, json_number, room_for
from gssc.settings import read_settings

CONFIG, LOG, CHECKPOINT = "config.yaml", "metrics.jsonl", "checkpoint.safetensors"
FILES = (CONFIG, LOG, "metrics.json", "model.safetensors", "model.json", "scores.npz", "edges.npz")
NEW, DONE, MOVING = ".new", ".done", ".moving"
# The first line of a run's config.yaml, which no other program writes.
MARK = "# gssc run: every setting, enough to run it again\n"
# Runs that were written before there was a mark have all of these sections, and a log.
SECTIONS_BEFORE_MARK = {"data", "model", "sparsifier", "train"}
# Settings of earlier versions that no longer exist, with the value that describes what is now always done.
RETIRED = {("train", "select"): "accuracy"}


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run of gssc, and not the files of another program that also has a config.yaml."""
    path = folder / CONFIG
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if file.read(len(MARK)) == MARK.encode():
            return True
    try:
        settings = read_settings(path)
    except GsscError:
        return False
    ours = all(isinstance(settings.get(name), dict) for name in SECTIONS_BEFORE_MARK)
    return ours and (folder / LOG).is_file()


def only_leftovers(folder: Path) -> bool:
    """Return whether a folder holds only hidden files of a process that was killed while it wrote config.yaml."""
    return all(item.name.startswith(".config.") for item in folder.iterdir())


def config_file(folder: Path) -> Path:
    """Return the config.yaml that ``--resume`` continues: that of an unfinished replacement, if there is one."""
    new = folder / NEW / CONFIG
    return new if new.exists() else folder / CONFIG


def saved_config(path: Path) -> RunConfig:
    """Return the settings of a run from its config.yaml.

    Raises:
        GsscError: if they do not fit this version of gssc, with what to do.
    """
    settings = read_settings(path)
    for (section, name), value in RETIRED.items():
        values = settings.get(section)
        if isinstance(values, dict) and values.get(name) == value:
            del values[name]
    try:
        return parse_config(settings)
    except GsscError as error:
        raise GsscError(
            f"{path} does not fit this version of gssc ({error}): correct that line of the file, or train again with "
            "--overwrite"
        ) from None


class EpochLog:
    """The log of a run, metrics.jsonl: one JSON object per epoch."""

    def __init__(self, folder: Path):
        self.path = folder / LOG

    def __len__(self) -> int:
        with self.path.open("rb") as file:
            return sum(1 for _ in file)

    def clear(self) -> None:
        """Begin a new log."""
        self.path.write_text("", encoding="utf-8")

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch; NaN and infinity become null."""
        values = {
            name: json_number(value, None) if isinstance(value, float) else value for name, value in record.items()
        }
        with room_for(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def cut(self, count: int) -> None:
        """Keep the first ``count`` records: those before the checkpoint that a run is resumed from."""
        self._write(self.path.read_text(encoding="utf-8").splitlines()[:count])

    def mark_best(self, epoch: int) -> None:
        """Mark the kept epoch alone as the best one; before the end, every epoch that was best so far is marked."""
        records = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        self._write([json.dumps({**record, "best": record["epoch"] == epoch}) for record in records])

    def _write(self, lines: list[str]) -> None:
        with atomic_write(self.path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def clear(folder: Path) -> None:
    """Delete the files of a run; config.yaml goes last, so that a folder without one is not a run."""
    for name in (CHECKPOINT, *reversed(FILES)):
        (folder / name).unlink(missing_ok=True)


def begin_replacement(folder: Path) -> Path:
    """Return an empty folder for a run that is to replace the one in ``folder``; an unfinished one is discarded."""
    exports_in(folder)  # raises now, not after hours of training, if one holds files that must not be deleted
    shutil.rmtree(folder / NEW, ignore_errors=True)
    (folder / NEW).mkdir()
    return folder / NEW


def replace_run(folder: Path) -> None:
    """Put the finished run in ``.new`` in the place of the one in ``folder``."""
    (folder / NEW).rename(folder / DONE)
    complete_replacement(folder)


def complete_replacement(folder: Path) -> None:
    """Move the files of a finished replacement, if there is one, to their place."""
    done = folder / DONE
    if not (done.is_dir() and is_run(folder)):
        return
    if not (done / MOVING).exists():  # what is in the folder is the old run's
        for export in exports_in(folder):
            shutil.rmtree(export)
        for name in {CHECKPOINT, *FILES} - {item.name for item in done.iterdir()}:
            (folder / name).unlink(missing_ok=True)
        (done / MOVING).touch()
    for name in reversed(FILES):  # config.yaml last: until then the folder is a run by its old one
        if (done / name).exists():
            (done / name).replace(folder / name)
    shutil.rmtree(done)

"""A run in TensorBoard: ``tensorboard --logdir runs``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gssc.extras import require
from gssc.tracking.callback import Callback, epoch_numbers, flat_settings, result_numbers

if TYPE_CHECKING:
    from gssc.run import Run
    from gssc.train.selection import Epoch


class TensorBoard(Callback):
    """Writes the numbers of every epoch, then settings and result, to ``FOLDER/tensorboard``.

    Args:
        folder: where event files go; ``tensorboard`` inside the run folder if left out.
    """

    def __init__(self, folder: str | None = None):
        require("tensorboard", extra="tensorboard")
        self.folder = folder

    def start(self, run: Run) -> None:
        """Open the event file; for a resumed run, points after its checkpoint are hidden."""
        writer = require("torch.utils.tensorboard", extra="tensorboard").SummaryWriter
        step = run.training.epoch if run.resumed else None
        self.settings = flat_settings(run.config.to_dict())
        folder = self.folder or str(run.folder / "tensorboard")
        self.writer: Any = writer(folder, purge_step=step)
        self.look = f"view with: tensorboard --logdir {shlex.quote(folder)}"

    def epoch(self, record: Epoch) -> None:
        """Write one point per number."""
        for name, value in epoch_numbers(record).items():
            self.writer.add_scalar(name, value, record.epoch)

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        """Write settings and result, so that runs can be compared in the HParams tab."""
        if metrics is not None:
            settings = {
                name: value if isinstance(value, bool | int | float | str) else str(value)
                for name, value in self.settings.items()
            }
            self.writer.add_hparams(settings, result_numbers(metrics), run_name=".")
        self.writer.close()

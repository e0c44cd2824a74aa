from __future__ import annotations

import io
import math
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from gssc import progress as module
from gssc.config import ContrastConfig
from gssc.data import load_dataset
from gssc.learner.learner import LearnerTraining
from gssc.learner.settings import Config
from gssc.learner.streamed import ROW_EPOCHS, StreamedLearner
from gssc.progress import EpochProgress, epochs_ahead
from gssc.train.selection import Epoch

EPOCH = Epoch(
    epoch=168, phase="consolidate", best=True, smoothness_loss=0.031, classification_loss=6.357, val_score=0.8166,
    edges_kept=5_278, pseudo_homophily=0.812,
)  # fmt: skip


def fake(total: int = 170, epoch: int = 168) -> SimpleNamespace:
    return SimpleNamespace(config=SimpleNamespace(total_epochs=total), epoch=epoch)


def drawn(progress: EpochProgress, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(progress.bar.get_renderable())
    (line,) = console.file.getvalue().splitlines()
    return line


@pytest.mark.parametrize("phase", ["consolidate", "student 3, inputs dropped", "linear teachers"])
def test_a_bar_with_the_time_left_fits_80_columns(phase: str) -> None:
    training = fake()
    progress = EpochProgress(training, Console(width=80, force_terminal=True, file=io.StringIO()))
    progress.forecast.pace.add("", 3.0)
    training.epoch = 169
    progress.show(Epoch(**{**vars(EPOCH), "phase": phase}))
    line = drawn(progress, 80)
    assert line.startswith(phase)
    assert "0:0" in line
    assert "left" in line
    assert "val 81.7%" in line
    assert "━" in line
    assert "…" not in line


def test_a_log_gets_a_line_every_ten_seconds_however_long_an_epoch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.SECONDS_BETWEEN_LINES == 10
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)
    console = Console(width=80, file=io.StringIO())

    def written(text: str) -> bool:
        deadline = time.monotonic() + 60
        while text not in console.file.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        return text in console.file.getvalue()

    with EpochProgress(fake(epoch=0), console) as progress:
        assert written("starting: epoch 0 of about 170\n")
        progress.show(EPOCH)
        assert written("consolidate: epoch 1 of about ")
        assert written(" left, loss 6.388, val 81.7%, kept so far 81.7%, edges 5,278\n")
    assert written("trained 1 epoch in 0:0")
    progress._ticker.join(60)
    assert not progress._ticker.is_alive()  # nothing after the end


def test_a_terminal_is_left_clean() -> None:
    console = Console(width=80, force_terminal=True, file=io.StringIO())
    with EpochProgress(fake(epoch=0), console) as progress:
        progress.show(EPOCH)
    assert console.file.getvalue().endswith("\x1b[2K")  # the line of the bar is erased


def test_numbers_that_are_not_there_are_left_out() -> None:
    progress = EpochProgress(fake(epoch=0), Console(width=80, file=io.StringIO()))
    progress.show(Epoch(epoch=0, phase="spread", val_score=math.nan))
    assert progress.numbers == ""


def test_phases_of_pair_training_are_counted_apart() -> None:
    config = ContrastConfig()
    config.train.warmup_epochs, config.train.epochs, config.consolidate.epochs = 10, 20, 5
    training = SimpleNamespace(config=config, epoch=4, phase="warm-up", consolidated=0)
    assert epochs_ahead(training) == {"consolidate": 5, "alternate": 20, "warm-up": 6}
    training.epoch, training.phase = 28, "alternate"
    assert epochs_ahead(training) == {"consolidate": 5, "alternate": 2}
    training.epoch, training.phase, training.consolidated = 30, "consolidate", 4
    assert epochs_ahead(training) == {"consolidate": 1}


@pytest.mark.parametrize("pairs", ["always", "never"])
def test_the_default_learner_is_counted_to_its_last_record(pairs: str) -> None:
    config = Config()
    config.teachers.pairs, config.teachers.pair_epochs, config.teachers.rounds = pairs, 2, 2
    config.teachers.trees = False
    training = LearnerTraining(load_dataset("csbm", nodes=200, degree=4), config)
    expected, exact = sum(epochs_ahead(training).values()), []
    for record in training.epochs():
        exact.append((record.phase, record.epoch + 1 + sum(epochs_ahead(training).values())))
    total = exact[-1][1]
    assert sum(epochs_ahead(training).values()) == 0
    one_round = sum(phase.startswith("student 1") for phase, _ in exact)
    guesses = [expected, *(found for _, found in exact)]
    assert max(abs(guess - total) for guess in guesses) <= 12 + one_round  # as many teachers and rounds as usual
    last_round = exact[-1][0].split(",")[0]
    assert {found for phase, found in exact if phase.startswith(last_round)} == {total}


def test_a_streamed_training_is_counted_to_its_last_epoch() -> None:
    config = Config()
    config.teachers.pair_epochs, config.teachers.pair_batches, config.model.hidden = 2, 2, 8
    training = StreamedLearner(load_dataset("csbm", nodes=200, degree=4), config)
    totals = {sum(epochs_ahead(training).values())}
    for record in training.epochs():
        totals.add(record.epoch + 1 + sum(epochs_ahead(training).values()))
    assert totals == {2 + 2 * ROW_EPOCHS}
    assert epochs_ahead(training) == {"pairs": 0, "rows": 0}


def test_stages_before_the_first_epoch_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BEFORE_STAGE", 0.01)
    training = SimpleNamespace(**vars(fake(epoch=0)), preparing="sketches of neighbourhoods 40%", prepared=0.0)
    log = Console(width=80, file=io.StringIO())
    with EpochProgress(training, log) as progress:
        deadline = time.monotonic() + 60
        while not log.file.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert log.file.getvalue() == "preparing: sketches of neighbourhoods 40%, 0:00 so far\n"
        progress.forecast.seen -= 100  # the preparation took 90 seconds, and the epoch 10
        training.preparing, training.prepared, training.epoch = "", time.monotonic() - 10, 1
        progress.show(EPOCH)
        assert round(progress.forecast.pace.seconds[""]) == 10
        assert round(progress.forecast.spent) == 100
        assert progress.line().startswith("consolidate: epoch 1 of about 170, 28:10 left")
    terminal = EpochProgress(training, Console(width=80, force_terminal=True, file=io.StringIO()))
    training.preparing = "sketches of neighbourhoods 100%"
    terminal._draw()
    assert drawn(terminal, 80).startswith("sketches of neighbourhoods 100% ")
    assert "0:00 so far" in drawn(terminal, 80)


def test_a_streamed_training_names_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    config.teachers.pair_epochs, config.teachers.pair_batches, config.model.hidden = 1, 1, 8
    training = StreamedLearner(load_dataset("csbm", nodes=200, degree=4), config)
    stages: list[str] = []
    setting = object.__setattr__

    def note(self: StreamedLearner, name: str, value: object) -> None:
        setting(self, name, value)
        if name == "preparing":
            stages.append(str(value).rpartition(" ")[0] if str(value).endswith("%") else str(value))

    monkeypatch.setattr(StreamedLearner, "__setattr__", note)
    next(training.epochs())
    assert list(dict.fromkeys(stages)) == [
        *("sketches of features", "sketches of neighbourhoods", "trust in edges", "teacher", "")
    ]
    assert training.prepared > 0

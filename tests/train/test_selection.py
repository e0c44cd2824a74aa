"""Which epoch is kept: validation alone decides, ties and broken numbers included."""

from __future__ import annotations

from gssc.train.selection import BestEpoch, Epoch


def nan() -> float:
    """Return a new NaN object, as a metric does: in tuples, an object is equal to itself, even NaN."""
    return float("nan")


def epoch(number: int, val_score: float, val_loss: float, test_score: float = 0.0) -> Epoch:
    return Epoch(
        epoch=number,
        phase="alternate",
        smoothness_loss=0.0,
        classification_loss=0.0,
        center_loss=0.0,
        sparsifier_loss=0.0,
        train_score=1.0,
        val_score=val_score,
        val_loss=val_loss,
        test_score=test_score,
        edges_kept=1,
        homophily=1.0,
        pseudo_homophily=1.0,
        seconds=0.0,
    )


def kept(best: BestEpoch, *records: Epoch) -> int:
    for record in records:
        best.judge(record)
    return best.record.epoch


def test_accuracy_decides_and_loss_breaks_ties():
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, 0.5, 1.0), epoch(1, 0.6, 9.0), epoch(2, 0.6, 8.0), epoch(3, 0.6, 8.5)) == 2


def test_equal_in_everything_keeps_the_earlier():
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, 0.5, 1.0), epoch(1, 0.5, 1.0)) == 0


def test_test_accuracy_has_no_influence():
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, 0.5, 1.0, test_score=0.1), epoch(1, 0.5, 1.0, test_score=0.9)) == 0


def test_only_the_epochs_that_were_best_are_marked():
    best = BestEpoch(patience=5, validation=True)
    records = [epoch(0, 0.5, 1.0), epoch(1, 0.4, 1.0), epoch(2, 0.6, 1.0)]
    kept(best, *records)
    assert [record.best for record in records] == [True, False, True]


def test_patience_counts_from_the_best_epoch():
    best = BestEpoch(patience=2, validation=True)
    over = []
    for record in (epoch(0, 0.5, 1.0), epoch(1, 0.4, 1.0), epoch(2, 0.6, 1.0), epoch(3, 0.1, 1.0), epoch(4, 0.1, 1.0)):
        best.judge(record)
        over.append(best.patience_is_over())
    assert over == [False, False, False, False, True]


def test_without_validation_the_last_epoch_is_kept_and_nothing_stops():
    best = BestEpoch(patience=1, validation=False)
    assert kept(best, *(epoch(number, nan(), nan()) for number in range(5))) == 4
    assert not best.patience_is_over()


def test_a_run_that_broke_down_keeps_its_last_sound_epoch():
    """NaN compares as neither better nor worse; it must never count as better."""
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, 0.5, 1.0), epoch(1, 0.5, nan()), epoch(2, nan(), nan())) == 0


def test_the_first_sound_epoch_replaces_a_broken_one():
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, nan(), nan()), epoch(1, 0.1, 5.0)) == 1


def test_without_a_defined_accuracy_loss_decides():
    """ROC-AUC needs both classes of a task among the validation nodes; where it has none, the loss decides."""
    best = BestEpoch(patience=5, validation=True)
    assert kept(best, epoch(0, nan(), 1.0), epoch(1, nan(), 0.5), epoch(2, nan(), 0.7)) == 1

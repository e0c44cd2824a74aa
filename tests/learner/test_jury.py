"""The labels that judge: scores by hand, folds that do not overlap, calibration."""

from __future__ import annotations

import numpy as np
import pytest

from gssc.learner.jury import ENOUGH, FOLDS, MANY, Jury, some_of_each_class


def jury_of(truth: np.ndarray, classes: int, **options: object) -> Jury:
    """A jury whose validation nodes are all nodes from the third on."""
    return Jury(truth, np.array([0, 1]), np.arange(2, len(truth)), classes, **options)  # type: ignore[arg-type]


def test_score_and_loss_by_hand():
    truth = np.zeros(2 + ENOUGH, dtype=np.int64)
    truth[2 + ENOUGH // 2 :] = 1
    view = np.tile([0.75, 0.25], (len(truth), 1))
    jury = jury_of(truth, 2)
    assert jury.score((view,)) == 0.5
    assert jury.loss((view,)) == pytest.approx(-(np.log(0.75) + np.log(0.25)) / 2, abs=1e-5)


def test_class_weights_weigh_the_judging_labels():
    truth = np.zeros(2 + ENOUGH, dtype=np.int64)
    truth[-10:] = 1
    view = np.tile([0.9, 0.1], (len(truth), 1))
    assert jury_of(truth, 2).score((view,)) == pytest.approx(40 / 50)
    assert jury_of(truth, 2, class_weight=np.array([1.0, 4.0])).score((view,)) == pytest.approx(0.5)


def test_without_validation_labels_folds_of_training_labels_judge():
    labels = np.repeat([0, 1], 10)
    jury = Jury(labels, np.arange(20), np.empty(0, dtype=np.int64), 2)
    assert jury.cross_validates
    assert len(jury.views) == FOLDS + 1
    for view, judges in zip(jury.views, jury.judges, strict=True):
        assert not set(view) & set(judges)
    assert sorted(np.concatenate(jury.judges)) == list(range(20))
    assert set(jury.views[-1]) == set(range(20))


def test_the_only_label_of_a_class_is_never_held_out():
    labels = np.array([0, 0, 0, 1, 2, 2])
    jury = Jury(labels, np.arange(6), np.empty(0, dtype=np.int64), 3)
    assert all(3 in view for view in jury.views)
    assert sorted(np.concatenate(jury.judges)) == [0, 1, 2, 4, 5]


def test_one_label_of_each_class_leaves_none_to_judge():
    jury = Jury(np.array([0, 1, 2]), np.arange(3), np.empty(0, dtype=np.int64), 3)
    assert len(jury.views) == 1
    assert not len(jury.truth)


def test_flat_probabilities_stay_probabilities_however_sharp_they_become():
    """Log odds of a fraction divided by a small temperature: all terms are tiny, their sum is one all the same."""
    truth = np.random.default_rng(0).integers(0, 7, 300)
    view = np.full((300, 7), 1 / 7, dtype=np.float32)
    view[np.arange(300), truth] += 0.02
    view /= view.sum(axis=1, keepdims=True)
    jury = jury_of(truth, 7)
    (tempered,) = jury.tempered((view,))
    assert np.allclose(tempered.sum(axis=1), 1, atol=1e-5)
    assert jury.loss((tempered,)) < 0.5 * jury.loss((view,))


def test_opinions_are_corrected_only_once_that_was_decided_to_gain():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, MANY + 100)
    seen = np.where(rng.random(len(truth)) < 0.8, truth, rng.integers(0, 3, len(truth)))
    view = np.full((len(truth), 3), 0.1, dtype=np.float32)
    view[np.arange(len(truth)), (seen + 1) % 3] = 0.8
    jury = jury_of(truth, 3)
    assert jury.score(jury.calibrated((view,))) < 0.2
    decision = jury.decide_correction((view,))
    assert decision.startswith("yes, of confused classes: gains ")
    assert decision.endswith("; validation scores are too high, as it is fitted to them")
    assert jury.score(jury.calibrated((view,))) > 0.8


def test_few_labels_decide_nothing():
    jury = jury_of(np.repeat(np.arange(15), 4), 15)
    assert jury.decide_correction((np.full((60, 15), 1 / 15),)).startswith("no: too few")
    assert not jury.corrects


def test_training_labels_decide_no_correction():
    """Without validation labels: the class shares of training labels are those that opinions have already."""
    labels = np.repeat([0, 1], [90, 30])
    jury = Jury(labels, np.arange(120), np.empty(0, dtype=np.int64), 2)
    views = (np.full((120, 2), 0.5),) * len(jury.views)
    assert jury.decide_correction(views).startswith("no: too few")
    judged = Jury(labels, np.arange(0, 120, 2), np.arange(1, 120, 2), 2)
    assert judged.decide_correction(views[:1]).startswith("yes, of class shares")
    assert np.allclose(judged.calibrated(views[:1])[0][0], [0.7, 0.3], atol=0.05)


@pytest.mark.parametrize(("gained", "verdict"), [(0.03, "yes"), (0.01, "no"), (-0.03, "no")])
def test_a_gain_within_its_standard_error_decides_no_correction(
    gained: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gssc.learner.jury.gain", lambda *_: (gained, 0.02))
    jury = jury_of(np.arange(2 + MANY) % 2, 2)
    assert jury.decide_correction((np.full((2 + MANY, 2), 0.5),)).startswith(f"{verdict}, of confused classes: ")
    assert jury.corrects == (verdict == "yes")


def test_many_classes_need_more_labels_to_be_corrected():
    """Every class is taken for the next one; 15 classes have 240 numbers to fit."""
    rng = np.random.default_rng(0)
    verdicts = {}
    for count in (500, 1500):
        labels = rng.integers(0, 15, 2 * count)
        jury = Jury(labels, np.arange(count), np.arange(count, 2 * count), 15)
        opinion = np.full((2 * count, 15), 0.02)
        opinion[np.arange(2 * count), (labels + 1) % 15] = 0.72
        verdicts[count] = "confused" in jury.decide_correction((opinion,))
    assert verdicts == {500: False, 1500: True}


def test_the_lead_of_one_opinion_over_another_by_hand():
    """The first is right on all of 100 labels, the second on 90: a lead of 0.1 with variance 0.09 per label."""
    truth = np.zeros(102, dtype=np.int64)
    first, second = np.tile([0.9, 0.1], (102, 1)), np.tile([0.9, 0.1], (102, 1))
    second[2:12] = [0.1, 0.9]
    jury = jury_of(truth, 2)
    assert jury.lead((first,), (second,)) == pytest.approx((0.1, 0.03))
    assert jury.lead((second,), (first,)) == pytest.approx((-0.1, 0.03))
    assert jury.lead((first,), (first,)) == (0, 0)


def test_the_standard_error_counts_weights():
    """Five labels of 500 have half of the total weight."""
    truth = np.zeros(502, dtype=np.int64)
    truth[-5:] = 1
    jury = jury_of(truth, 2, class_weight=np.array([1.0, 99.0]))
    assert jury.standard_error(0.5) == pytest.approx(np.sqrt(0.25 * (495 + 5 * 99**2) / (2 * 495) ** 2))
    assert jury_of(truth, 2).standard_error(0.5) == pytest.approx(np.sqrt(0.25 / 500))


def test_a_sample_of_labels_keeps_rare_classes_and_the_shares_of_the_others():
    labels = np.concatenate([np.zeros(30_000), np.ones(10_000), np.full(3, 2)]).astype(np.int64)
    for seed in range(5):
        some = some_of_each_class(labels, 20_000, np.random.default_rng(seed))
        assert len(np.unique(some)) == len(some) == 20_000
        assert np.abs(np.bincount(labels[some]) - [15_000, 5_000, 3]).max() < 5
    assert len(some_of_each_class(labels, 40_003, np.random.default_rng(0))) == 40_003
    many = np.arange(50_000) % 15_000  # so many classes that there is room for one label of each
    some = some_of_each_class(many, 20_000, np.random.default_rng(0))
    assert len(np.unique(many[some])) == 15_000
    assert len(some) == 20_000

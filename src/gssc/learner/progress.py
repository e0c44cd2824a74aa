"""Estimate the number of records that the default learner still has to write, for progress bars."""

from __future__ import annotations

from gssc.learner.learner import PASSES_PER_STEP, LearnerTraining
from gssc.learner.student import batches_and_passes
from gssc.models.student import StudentSettings

USUAL_TEACHERS = 12  # usual number of records of the first phase; the actual number depends on the data


def kind_of(phase: str) -> str:
    """Return the kind of work that a phase belongs to: ``teachers``, ``pairs`` or ``students``.

    >>> kind_of("student 2, plain"), kind_of("linear teachers"), kind_of("pairs")
    ('students', 'teachers', 'pairs')
    """
    if phase == "pairs":
        return "pairs"
    return "students" if phase.startswith("student ") else "teachers"


def records_ahead(training: LearnerTraining) -> dict[str, int]:
    """Return the number of records still to come, by kind of work.

    The number is exact for the current round of students; later rounds are assumed to have one student each. Until the
    teachers have been fitted, their usual number is assumed, and pairs are counted unless the settings exclude them.
    """
    records = {kind: student_records(training, settings) for kind, settings in training.students.settings.items()}
    rounds = training.rounds
    this_round, left = [records[kind] for kind in rounds.kinds], rounds.most - rounds.number
    ahead = {"students": sum(this_round[rounds.position :]) + (left - 1) * max(records.values()) if left else 0}
    if (student := training.student) is not None and not student.has_ended:
        ahead["students"] -= student.done // PASSES_PER_STEP
    if len(training.students.held_out):
        again = student_records(training, training.students.settings[rounds.best_kind or rounds.kinds[-1]])
        ahead["students"] += again * (training.phase != "end")
    if training.phase == "teachers":
        ahead["teachers"] = max(1, USUAL_TEACHERS - training.epoch)
    if training.phase in ("teachers", "pairs") and may_train_on_pairs(training):
        done = training.pairs.epoch if training.pairs is not None else 0
        ahead["pairs"] = training.config.teachers.pair_epochs - done
    return {kind: max(0, count) for kind, count in ahead.items()}


def student_records(training: LearnerTraining, settings: StudentSettings) -> int:
    """Return the number of records per student with these settings."""
    _, passes = batches_and_passes(settings, len(training.students.taught))
    return max(1, -(-passes // PASSES_PER_STEP))


def may_train_on_pairs(training: LearnerTraining) -> bool:
    """Return whether training on pairs is under way or may still follow."""
    if training.phase == "pairs":
        return True
    possible = training.seen.num_edges > 0 and not training.jury.cross_validates
    return possible and training.config.teachers.pairs != "never"

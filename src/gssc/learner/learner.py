"""The default learner: trust in edges, teachers ranked by held-out labels, and an MLP that learns from the best."""

from __future__ import annotations

import copy
import math
from collections.abc import Generator, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from gssc.deploy import DeployedModel
from gssc.errors import GsscError
from gssc.features import FeatureTable, columns_on_one_scale
from gssc.graph import Graph
from gssc.learner.best import BestStudent
from gssc.learner.faculty import Faculty
from gssc.learner.jury import ENOUGH, TINY, Jury, balanced_weights, with_weighty_labels
from gssc.learner.multinomial import naive_bayes
from gssc.learner.other_models import check_names, joins_teachers, models_to_ask, opinion_name, trained_view
from gssc.learner.pool import Pool, Views
from gssc.learner.rounds import PARTNERS, Rounds
from gssc.learner.settings import Config
from gssc.learner.student import StudentTraining
from gssc.learner.students import Students, opinion_of
from gssc.models.student import Student, StudentSettings, all_logits
from gssc.sparsify.evidence import Evidence
from gssc.train.bilevel import BilevelTraining
from gssc.train.checkpoint import State
from gssc.train.process import computing
from gssc.train.training import Judge, Outcome, Step, Training, deployed_mlp, scored
from gssc.trust.edges import edge_trust, everything_kept, weighed
from gssc.trust.opinions import with_opinions

PASSES_PER_STEP = 10  # passes of a student between two records, where a run can be interrupted


class LearnerTraining(Training):
    """Trains the default learner.

    1. Trust: every edge gets a keep probability, from evidence without labels.
    2. Teachers: linear models, trees and pair training (Algorithm 1) each form an opinion, class probabilities of every
       node. The opinions are collected in a pool and ranked by held-out labels, the jury. The teacher of the students
       is an ensemble, the mean of the best opinions.
    3. Rounds: in each round, students, MLPs whose only input is a feature row, learn the teacher's probabilities as
       soft labels. Their own opinions, as they are and averaged over trusted edges, join the pool. A student cannot
       reproduce the effect of wrong edges or wrong labels on single nodes, so it is often better than its teacher.

    The student that is best on held-out labels is kept and deployed. The reported trust in edges also uses its
    predictions. In the inductive and cold-start settings students are chosen on rows that they were not trained on.

    Args:
        graph: the problem, with one class per node.
        config: all settings.
        class_weight: weight of each class, [C]; overrides ``train.class_weight``.
        node_weight: weight of each node's label, [N]; all one if left out. A label of weight zero is ignored.
    """

    config: Config
    best: BestStudent
    weighs_edges = True
    counters: ClassVar[tuple[str, ...]] = (
        *Training.counters,
        *("phase", "scaling_name", "choices", "corrects"),
    )

    def __init__(
        self,
        graph: Graph,
        config: Config,
        class_weight: np.ndarray | None = None,
        node_weight: np.ndarray | None = None,
    ):
        super().__init__(graph, config, BestStudent())
        if not self.task.has_classes:
            raise GsscError("the default learner needs one class per node; for several targets use model str_contrast")
        self.phase = "teachers"  # then "pairs", "rounds", "all rows", "end"
        self.scaling_name = ""
        self.choices: dict[str, str] = {}  # decisions made during training, with the reason for each
        if node_weight is not None:
            node_weight = node_weight[self.seen_nodes]
            self.seen = with_weighty_labels(self.seen, node_weight)
        if class_weight is None and config.train.class_weight == "balanced":
            class_weight = balanced_weights(self.seen.labels[self.seen.train], self.seen.num_classes)
        if class_weight is not None:
            self.seen = with_weighty_labels(self.seen, class_weight[self.seen.labels])
        seen, seed = self.seen, config.train.seed
        self.jury = Jury.of(seen, class_weight, node_weight, seed)
        check_names(config.teachers.models)
        with computing(config.train.threads):
            compared = seen.with_(features=columns_on_one_scale(seen.features, config.train.normalize))
            known = everything_kept(seen) if config.sparsifier.name == "none" else edge_trust(compared, seed)
            self.trust = weighed(known, seen.edge_weight)
        self.believed = known.keep  # without the given edge weights: a small weight does not mean a wrong edge
        random = f"{self.trust.noise_share:.1%} of the edges look like random pairs"
        self.choices["trust"] = random if seen.num_edges else "there are no edges"
        self.pool = Pool(self.jury, seen.edges, self.trust.keep, seen.num_nodes)
        self.faculty = Faculty(seen, self.trust.keep, self.pool, config.train.normalize, seed)
        self.judge = Judge(self.task, graph.labels, self.seen_nodes[seen.edges], graph.train, graph.val, graph.test)
        unseen = graph.setting != "transductive"
        self.students = Students(seen, self.jury, config.model, seed, unseen, config.train.normalize)
        self.rounds = Rounds(
            self.pool,
            most=1 if self.jury.cross_validates else config.teachers.rounds,  # cross-validation cannot judge students
            best=config.teachers.best,
            kinds=list(self.students.settings),
            seen_rows=not unseen,
            most_schedules=self.students.most_schedules if config.teachers.rounds > 1 else 1,
        )
        self.trains_on_pairs = False  # decided once the teachers are fitted
        self.pairs: BilevelTraining | None = None  # while it trains
        self.student: StudentTraining | None = None  # while it trains
        self.kept_student: Student | None = None  # at the end
        self.val_logits: Tensor | None = None  # of validation nodes, by the kept student before it learned their rows
        self._seen_table: FeatureTable | None = None  # once the scaling is chosen

    @property
    def corrects(self) -> bool:
        """Whether opinions are corrected, see :meth:`Jury.decide_correction`."""
        return self.jury.corrects

    @corrects.setter
    def corrects(self, value: bool) -> None:
        self.jury.corrects = value

    # The algorithm ----------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Fit teachers, train on pairs, and train rounds of students, starting from the current phase."""
        if self.phase == "teachers":
            # A resumed run repeats this phase with the stored fits, and skips the records it has already written.
            yield from islice(self.ask_teachers(), self.epoch, None)
            self.faculty.fitted.clear()
            self.phase = "pairs" if self.trains_on_pairs else "rounds"
        if self.phase == "pairs":
            yield from self.train_on_pairs()
            self.phase = "rounds"
        if self.phase == "rounds":
            yield from self.teach()
            self.phase = "all rows" if len(self.students.held_out) else "end"
        if self.phase == "all rows":
            yield from self.train_on_all_rows()

    def ask_teachers(self) -> Iterator[Step]:
        """Fit the teachers that need no epochs and the models named in the settings, and pool their opinions."""
        teachers, faculty = self.config.teachers, self.faculty
        self.scaling_name, reason = faculty.choose_scaling()
        self.choices["normalize"] = f"{self.scaling_name}: {reason}"
        yield self._step("scaling")
        if not teachers.linear:
            self.pool.clear()  # of the regressions that chose the scaling
        for phase in faculty.linear() if teachers.linear else ():
            self.pool.prune_if_large(teachers.best)
            yield self._step(phase)
        self.choices["labels"] = faculty.verdict_on_labels()
        self._decide_correction()
        for phase in faculty.trees(self._rows()) if teachers.trees else ():
            self.pool.prune_if_large(teachers.best)
            yield self._step(phase)
        if not teachers.linear:  # then trees are the first opinions to decide it by
            self._decide_correction()
        for name in models_to_ask(teachers.models, faculty):
            yield from self._ask_model(name)
        if not self.pool.opinions:
            raise GsscError("no teacher is enabled: set teachers.linear or teachers.trees, or name teachers.models")
        self.trains_on_pairs = self._decide_pairs()
        faculty.spread_best(teachers.best)
        if self.jury.cross_validates:  # there is one round of students, so it joins the teachers before that
            self._ask_naive_bayes()
        self.pool.prune(self.config.teachers.best)
        yield self._step("teachers")

    def train_on_pairs(self) -> Iterator[Step]:
        """Run Algorithm 1 on pairs sampled by trust, and pool the running mean of its predictions as its opinion."""
        pairs = self._make_pairs()
        for step in pairs.steps():
            pairs.epoch += 1
            yield Step("pairs", self._of_all_nodes(step.scores), step.edges, step.losses)
        mean = pairs.consensus.mean() if pairs.consensus.kept is None else pairs.consensus.kept
        self._add_opinion("pairs", (mean.numpy(),), self.pool.best(PARTNERS))
        self.pairs = None

    def teach(self) -> Iterator[Step]:
        """Train rounds of students on the mean of the best opinions; the opinion of each student joins the pool."""
        while not self.rounds.are_over:
            if self.rounds.begins and self.student is None and not self.jury.cross_validates:
                self._ask_naive_bayes()
            yield from self.train_student(self.rounds.kinds[self.rounds.position])
            self.student = None

    def train_student(self, kind: str) -> Iterator[Step]:
        """Train a student on the teacher's soft labels, pool its opinion, and keep it if it is the best so far."""
        teacher, phase = self.rounds.choose_teacher(), f"student {self.rounds.number + 1}, {kind}"
        if self.student is None:
            self.student = self._make_student()
            if self.rounds.continues:
                self.student.model.load_state_dict(self.best.weights["model"])
        last = yield from self._passes(self.student, phase)
        opinion = opinion_of(self.student)
        merit, error = self.students.judge(kind, opinion, teacher)
        if self.rounds.cannot_follow(kind, opinion):
            merit = -math.inf, -math.inf
        if not self.jury.cross_validates:  # with cross-validation, no label is held out from the student
            self._add_opinion(f"student {self.rounds.number + 1} ({kind})", (opinion,), self.rounds.partners)
        kept = self.best.prefers(merit, error)
        self.best.offer(merit, error, f"{kind}, round {self.rounds.number + 1}")
        self.rounds.student_ended(opinion, kept)
        yield last

    def train_on_all_rows(self) -> Iterator[Step]:
        """Train the kept student again, on the rows that were held out to rank students as well."""
        self.student = self.student or self._make_student()
        last = yield from self._passes(self.student, "student on all rows")
        weights = copy.deepcopy(self.kept_weights())
        if not self.jury.cross_validates:
            weights["val_logits"] = torch.from_numpy(self._logits(self._student_of(self.best.weights))[self.graph.val])
        self.best.weights = weights
        self.phase = "end"
        yield last

    def _make_student(self) -> StudentTraining:
        """Return the training of the next student of this round or, at the end, of the kept one on all rows."""
        rounds = self.rounds
        if self.phase == "all rows":
            assert rounds.best_teacher is not None
            return self.students.make(rounds.best_kind, self._rows(), rounds.best_teacher, rounds.best_number, True)
        kind = rounds.kinds[rounds.position]
        return self.students.make(kind, self._rows(), rounds.choose_teacher(), rounds.number)

    def _passes(self, student: StudentTraining, phase: str) -> Generator[Step, None, Step]:
        """Train a student; yield a record every few passes and return the last one."""
        loss = None  # a student without a network has no passes
        for loss in student.run():
            if student.done % PASSES_PER_STEP == 0 and not student.has_ended:
                yield self._student_step(student, phase, loss)
        return self._student_step(student, phase, loss)

    def _decide_correction(self) -> None:
        """Decide from the best opinion so far, if any, whether opinions are corrected, and recalibrate the pool."""
        if self.config.teachers.correction == "never":
            self.choices["correction"] = "no: as set"
        elif self.pool.opinions:
            self.choices["correction"] = self.jury.decide_correction(self.pool.opinions[self.pool.best(1)[0]])
            self.pool.recalibrate()

    # Teachers ---------------------------------------------------------------------------------------------------

    def _add_opinion(self, name: str, views: Views, partners: list[str]) -> None:
        """Add an opinion to the pool, its averages over edges, and its geometric means with partners in the pool."""
        self.pool.add(name, views)
        self.pool.add_spread(name)
        self.pool.add_products(name, [partner for partner in partners if partner in self.pool.opinions])
        self.pool.prune_if_large(self.config.teachers.best)

    def _decide_pairs(self) -> bool:
        """Decide whether to train on pairs, which needs edges and enough validation labels to rank the opinion."""
        wanted, reason = self.config.teachers.pairs == "always", "as set"
        if not self.seen.num_edges:
            wanted, reason = False, "there are no edges"
        elif self.jury.cross_validates:
            wanted, reason = False, f"needs {ENOUGH} validation labels"
        elif self.config.teachers.pairs == "auto":
            wanted, reason = self.faculty.pairs_help()
        self.choices["pairs"] = f"{'yes' if wanted else 'no'}: {reason}"
        return wanted

    def _make_pairs(self) -> BilevelTraining:
        if self.pairs is None:
            config = self.config.for_pairs(self.scaling_name)
            self.pairs = BilevelTraining(self.seen.with_(test=None), config, sparsifier=self._known_sparsifier())
            weight = self.jury.node_weight
            self.pairs.label_keep = self.faculty.weigh_labels() * weight / weight[self.seen.train].max()
            self.choices["labels"] = self.faculty.verdict_on_labels()
            if self.jury.weighs:
                self.pairs.class_weight = torch.from_numpy(self.jury.class_weight).float()
        return self.pairs

    def _known_sparsifier(self) -> Evidence | None:
        """Return a sparsifier whose keep probabilities are the trust; None if the settings choose another one."""
        if self.config.sparsifier.name != "evidence":
            return None
        edges, no_rows = torch.from_numpy(self.seen.edges), torch.empty(self.seen.num_nodes, 0)
        return Evidence(no_rows, edges, self.config.sparsifier, self.rng, self.trust.keep)

    def _ask_naive_bayes(self) -> None:
        """Add the opinion of naive Bayes, fitted to the teacher's soft labels of the other rows, if rows are counts."""
        if not self.students.counts:
            return
        by_view = self.jury.cross_validates
        teacher = self.pool.teacher(self.config.teachers.best) if by_view else (self.rounds.choose_teacher(),)
        fitted = [naive_bayes(self._rows(), soft, len(teacher)) for soft in teacher]
        views = tuple(model.held_out for model in fitted if model is not None)
        if len(views) == len(fitted):
            # With few labels, products with the teachers that it learned from would take most of the weight.
            partners = [] if by_view else self.pool.best(PARTNERS)
            self._add_opinion(f"naive Bayes {self.rounds.number + 1}", views, partners)

    def _ask_model(self, name: str) -> Iterator[Step]:
        """Train another model in every view and add its opinion to the pool; with ``auto``, only if it is good."""
        views = self.faculty.fitted.get(name, ())
        for number, train in enumerate(self.jury.views):
            if number == len(views):
                selects = not self.jury.cross_validates
                seed = self.config.train.seed
                views += (trained_view(name, self.seen, train, self.scaling_name, selects, seed),)
                self.faculty.store(name, views)
            if number < len(self.jury.views) - 1:
                yield self._step(name)
        joins = True
        if self.config.teachers.models == "auto":
            joins, self.choices["models"] = joins_teachers(name, views, self.pool)
        if joins:
            self._add_opinion(opinion_name(name), views, self.pool.best(PARTNERS))
        yield self._step(name)

    # Rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> Any:
        """Return the scaled rows of the nodes that training may use."""
        return self._table().features

    def _table(self) -> FeatureTable:
        if self._seen_table is None:
            self._seen_table = FeatureTable(self.seen.features, self.scaling_name)
            self.scaling = self._seen_table.scaling
        return self._seen_table

    # Records, state and result ----------------------------------------------------------------------------------

    def _step(self, phase: str) -> Step:
        """Return a record with the best opinion so far, or with equal probabilities while there is none."""
        best = self.pool.best(1)
        shape = self.seen.num_nodes, self.seen.num_classes
        view = self.pool.opinions[best[0]][-1] if best else np.ones(shape, dtype=np.float32)
        return Step(phase, self._of_all_nodes(torch.from_numpy(np.log(view + TINY))), self._trusted())

    def _student_step(self, student: StudentTraining, phase: str, loss: float | None) -> Step:
        logits = torch.from_numpy(self._logits(student.model))
        return Step(phase, logits, self._trusted(), {} if loss is None else {"classification_loss": loss})

    def _of_all_nodes(self, scores: Tensor) -> Tensor:
        """Return scores of all nodes from those of the seen nodes, with zeros for the others."""
        found = torch.zeros(self.graph.num_nodes, scores.shape[1])
        found[torch.from_numpy(self.seen_nodes)] = scores
        return found

    def _trusted(self) -> np.ndarray:
        return np.flatnonzero(self.believed > 0.5)

    def _logits(self, model: Student) -> np.ndarray:
        """Return the logits of every node of the graph, unseen ones included, [N, C]."""
        table = self._table()
        if self.seen.num_nodes < self.graph.num_nodes:
            table = FeatureTable(self.graph.features, table.scaling)
        return all_logits(model, table.features)

    def components(self) -> dict[str, Any]:
        """Return what a checkpoint stores: pool, rounds and model in training or, in the first phase, the faculty."""
        if self.phase == "teachers":
            return {"faculty": self.faculty}
        student = None if self.student is None or self.student.has_ended else self.student
        in_training = {"pairs": self.pairs, "student": student}
        return {
            "pool": self.pool,
            "rounds": self.rounds,
            **{name: part for name, part in in_training.items() if part is not None},
        }

    def load_state_dict(self, state: State) -> None:
        """Resume from a state of :meth:`state_dict`: create what was in training, then load its state."""
        if state["counters"]["phase"] == "teachers":  # the phase is repeated, with its decisions
            self.restore_counters(state["counters"], "epoch", "seconds")
            self.faculty.load_state_dict(state["faculty"])
            return
        if state["best"].get("weights"):
            self._student_of(state["best"]["weights"])  # refuses settings of another version
        self.restore_counters(state["counters"], *self.counters)
        self.pairs = self._make_pairs() if "pairs" in state else None
        if "student" in state:
            self.rounds.load_state_dict(state["rounds"])
            self.student = self._make_student()
        super().load_state_dict(state)

    def kept_weights(self) -> State:
        """Return the weights and settings of the current student."""
        assert self.student is not None
        return {"model": self.student.model.state_dict(), "settings": asdict(self.student.settings)}

    def restore_best(self, weights: State) -> None:
        """Restore the kept student."""
        self.kept_student, self.val_logits = self._student_of(weights), weights.get("val_logits")
        self.choices["student"] = (
            f"{self.best.name}, best on held-out {'rows' if self.jury.cross_validates else 'labels'}"
        )

    def _student_of(self, weights: State) -> Student:
        student = Student(self.seen.num_features, self.seen.num_classes, StudentSettings(**weights["settings"]))
        student.load_state_dict(weights["model"])
        return student

    def outcome(self) -> Outcome:
        """Return the scores of every node by the kept student."""
        scores = self._logits(self._kept_student())
        return Outcome(
            kept=scored(self.kept(), self.task, self.graph, scores),
            scores=scores,
            val_scores=None if self.val_logits is None else self.val_logits.numpy(),
            seconds=self.seconds,
            epochs=self.epoch,
            edges_kept=int((self.edge_trust()[1] > 0.5).sum()),
            edges_total=self.seen.num_edges,
        )

    def note(self) -> str | None:
        """Return a note if the kept student is much less accurate than its teacher."""
        return self.rounds.note()

    def deployed(self) -> DeployedModel:
        """Return the kept student with the scaling of rows folded in."""
        return deployed_mlp(self.graph, self._kept_student().folded_layers(), "leaky_relu", self._table().scaling)

    def edge_trust(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges used in training and their keep probabilities, by evidence and the kept student if any."""
        keep = self.believed
        if self.kept_student is not None and self.config.sparsifier.name != "none":
            opinion = softmax(all_logits(self.kept_student, self._rows()), axis=1)
            keep = with_opinions(keep, self.seen.edges, opinion)
        return self.seen_nodes[self.seen.edges], keep

    def _kept_student(self) -> Student:
        if self.kept_student is None:
            raise GsscError("nothing was trained yet: run the training to its end first")
        return self.kept_student

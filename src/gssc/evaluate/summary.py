"""Rows of the store as one table: one row per method, one column per dataset, noise and setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gssc.data.registry import DATASETS
from gssc.errors import GsscError
from gssc.evaluate.cell import Cell
from gssc.evaluate.statistics import Marks, PairedDifference, average_ranks, differences_to, mark, summary
from gssc.evaluate.store import COLUMNS
from gssc.graph import LEARNING_SETTINGS
from gssc.models.registry import MODELS
from gssc.names import counted, nearest
from gssc.sparsify.registry import SPARSIFIERS

Scores = dict[Any, float | None]
RANK = "average rank"


@dataclass
class ResultTable:
    """Test score in per cent of every method and seed, with tests of the differences.

    Args:
        scores: score by method, column and seed.
        against: the method that others are compared with.
        metric: name of the metric of the scores.
    """

    scores: dict[str, dict[str, Scores]]
    against: str | None = None
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        self.columns = list(dict.fromkeys(column for cells in self.scores.values() for column in cells))
        self.marks: Marks = mark(self.scores)
        self.ranks = average_ranks(self.scores)
        self.differences = differences_to(self.scores, self.against) if self.against else {}

    @property
    def headings(self) -> list[str]:
        """The columns as they are shown."""
        return [*self.columns, RANK] if self.shows_ranks else self.columns

    @property
    def shows_ranks(self) -> bool:
        """Whether there is a column of average ranks: only with several methods and several datasets."""
        datasets = {column.partition(", ")[0] for column in self.ranks.columns}
        return len(datasets) > 1 and len(self.scores) > 1

    @property
    def caption(self) -> str:
        """The text below the table: what the numbers are, and which test the marks are based on."""
        counts = {len(seeds) for cells in self.scores.values() for seeds in cells.values()}
        runs = counted(counts.pop(), "run") if len(counts) == 1 else "runs"
        text = [f"Mean ± standard deviation over {runs}, test {self.metric} in %."]
        if len(self.scores) > 1:
            text.append(self.marks.caption)
        if self.against:
            text.append(f"In brackets: paired difference to {self.against} with its 95% confidence interval.")
        if self.shows_ranks:
            text.append(f"Average rank over {', '.join(self.ranks.columns)}.")
        return " ".join(text)

    def texts(self, bold: tuple[str, str], second: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each method with the text of its cells; best and second are between the given marks."""
        for method, cells in self.scores.items():
            line = []
            for column in self.columns:
                text = str(summary(cells.get(column, {}).values()))
                if self.marks.best[column] == method:
                    text = bold[0] + text + bold[1]
                elif self.marks.second[column] == method:
                    text = second[0] + text + second[1]
                if self.against and method != self.against:
                    text += _difference(self.differences[column][method])
                line.append(text)
            if self.shows_ranks:
                rank = self.ranks.ranks[method]
                line.append("-" if rank is None else f"{rank:.1f}")
            yield method, line


def result_table(runs: Sequence[dict[str, Any]], against: str | None = None) -> ResultTable:
    """Return the table of those of these runs that are finished."""
    scores: dict[str, dict[str, Scores]] = {}
    finished = sorted(latest([row for row in runs if row["status"] == "done"]), key=_place)
    with_sparsifier = {row["sparsifier"] for row in finished} != {"none"}
    for row in finished:
        cells = scores.setdefault(method_name(row, with_sparsifier), {})
        seeds = cells.setdefault(column_name(row), {})
        seeds[row["seed"]] = None if row["test_score"] is None else 100 * row["test_score"]
    if against is not None and against not in scores:
        raise GsscError(f"--against {against!r} is not among the finished methods; {nearest(against, scores)}")
    order = dict.fromkeys(
        method_name(row, with_sparsifier) for row in sorted(finished, key=lambda row: _place(row)[-3:])
    )
    metrics = sorted({row["metric"] or "accuracy" for row in finished})
    return ResultTable({method: scores[method] for method in order}, against, " or ".join(metrics) or "accuracy")


def latest(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one run per cell: of several, by older and newer code or settings, the one that finished last."""
    in_time = sorted(runs, key=lambda row: row["finished_at"])
    cell = [field.name for field in fields(Cell) if field.name in COLUMNS]
    return list({tuple(row[name] for name in cell): row for row in in_time}.values())


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of a row: the order of the registries, transductive and without noise first."""
    dataset = row["dataset"].partition(":")[0]
    names = (
        (dataset, DATASETS),
        (row["setting"], LEARNING_SETTINGS),
        (row["model"], MODELS),
        (row["sparsifier"], SPARSIFIERS),
    )
    place = [list(known).index(name) if name in known else len(known) for name, known in names]
    noise = [row[f"{about}_noise"] for about in ("label", "structure", "feature")]
    return (*place[:2], [text != "none" for text in noise], noise, *place[2:], row["seed"])


def method_name(row: dict[str, Any], with_sparsifier: bool = True) -> str:
    """Return the name of a method: ``gcn``, ``gcn+drop_edge``."""
    return row["model"] if not with_sparsifier or row["sparsifier"] == "none" else f"{row['model']}+{row['sparsifier']}"


def column_name(row: dict[str, Any]) -> str:
    """Return the dataset, with the setting and the noise where they are not the default."""
    parts = [row["dataset"]]
    if row["setting"] != "transductive":
        parts.append(row["setting"])
    for about in ("label", "structure", "feature"):
        if row[f"{about}_noise"] != "none":
            parts.append(f"{about} {row[f'{about}_noise']}")
    if row["max_epochs"]:
        parts.append(f"at most {counted(row['max_epochs'], 'epoch')}")
    return ", ".join(parts)


def _difference(difference: PairedDifference) -> str:
    if difference.mean is None:
        return ""
    if difference.low is None:
        return f" ({difference.mean:+.2f})"
    return f" ({difference.mean:+.2f}; {difference.low:+.2f} to {difference.high:+.2f})"

"""Export of runs: every run as .parquet or .csv, the table of means as .md or .tex, written atomically."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gssc.evaluate.store import COLUMNS
from gssc.evaluate.summary import ResultTable, result_table
from gssc.extras import require
from gssc.files import atomic_write
from gssc.names import counted

Runs = Sequence[dict[str, Any]]


def export_runs(path: str | Path, runs: Runs, against: str | None = None) -> str:
    """Write runs, or a table of their means, in the format of the file name; return a description of the content."""
    path = Path(path)
    with atomic_write(path) as temporary:
        return WRITERS[path.suffix.lower()](temporary, runs, against)


def _parquet(path: Path, runs: Runs, against: str | None) -> str:
    pyarrow, parquet = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    types = {"TEXT": pyarrow.string(), "INTEGER": pyarrow.int64(), "REAL": pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind.split()[0]]) for name, kind in COLUMNS.items()])
    parquet.write_table(pyarrow.Table.from_pylist(list(runs), schema=schema), path)
    return _count(runs)


def _csv(path: Path, runs: Runs, against: str | None) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(runs)
    return _count(runs)


def _count(runs: Runs) -> str:
    return counted(len(runs), "run")


def _markdown(path: Path, runs: Runs, against: str | None) -> str:
    table = result_table(runs, against)
    path.write_text(markdown(table), encoding="utf-8")
    return _size(table)


def markdown(table: ResultTable) -> str:
    """Return the table as Markdown, caption below."""
    lines = [_row(["method", *table.headings]), _row(["---", *["---:"] * len(table.headings)])]
    lines += [_row([method, *cells]) for method, cells in table.texts(bold=("**", "**"), second=("*", "*"))]
    return "\n".join([*lines, "", table.caption, ""])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex(path: Path, runs: Runs, against: str | None) -> str:
    table = result_table(runs, against)
    columns = "l" + "r" * len(table.headings)
    body = [_latex_row(["method", *table.headings])]
    body.append(r"\midrule")
    for method, cells in table.texts(bold=("<b>", "</b>"), second=("<u>", "</u>")):
        body.append(_latex_row([method, *cells]))
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        rf"\caption{{{_escaped(table.caption)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return _size(table)


def _size(table: ResultTable) -> str:
    return f"table of {counted(len(table.scores), 'method')} in {counted(len(table.columns), 'column')}"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_escaped(cell) for cell in cells) + r" \\"


def _escaped(text: str) -> str:
    for sign in "%_&#":
        text = text.replace(sign, f"\\{sign}")
    signs = {"±": r"$\pm$", "<b>": r"\textbf{", "</b>": "}", "<u>": r"\underline{", "</u>": "}"}
    for sign, code in signs.items():
        text = text.replace(sign, code)
    return text


WRITERS: dict[str, Callable[[Path, Runs, str | None], str]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".md": _markdown,
    ".tex": _latex,
}

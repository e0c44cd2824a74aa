"""``gssc score``: predictions for files of any size and number."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from gssc.errors import GsscError
from gssc.extras import require_all

EXAMPLES = """\
examples:
  gssc score runs/mine customers.parquet --out scores
  gssc score runs/mine exports/ --out scores --jobs 4          every table in the folder, four at a time
  gssc score runs/mine exports/ --out scores --engine ray      on the Ray cluster of RAY_ADDRESS, or on every core

Input: .parquet, .csv, .tsv or .txt (text also .gz), or a folder with such files. Output: Parquet files
part-*.parquet, which any reader takes as one table, and _manifest.json. Ids are carried over from the column that
gssc predict takes (id, node_id, node, or the first column if it is not a feature); without one, rows have a number and
the name of their file. Files are streamed: memory does not grow with their size. Stop it at any time and give the same
command to continue; no row is lost or written twice. Use gssc predict for small tables.
"""
ENGINES = ("local", "ray")


def add_arguments(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("run", type=str, help="run folder, with model.json and model.safetensors")
    parser.add_argument("rows", type=str, help="a table, or a folder of tables")
    parser.add_argument("--out", type=str, required=True, help="folder to write the scores to")
    parser.add_argument(
        "--decimal", choices=(".", ","), default=".", metavar="MARK", help="decimal mark of text tables: . or ,"
    )
    parser.add_argument("--engine", type=str, default="local", help="local (processes of this machine) or ray")
    parser.add_argument("--jobs", type=int, help="files at once; default 1, with ray as many as the cluster has cores")
    parser.add_argument("--overwrite", action="store_true", help="replace the scores in the folder")


def run(args: Any) -> None:
    """Score the files; show a line per file and the time left."""
    from rich.console import Console

    from gssc.evaluate.executor import LocalProcesses
    from gssc.names import counted, nearest
    from gssc.progress_bar import ProgressBar
    from gssc.scoring.parts import score_file
    from gssc.scoring.score import score

    if args.jobs is not None and args.jobs < 1:
        raise GsscError("--jobs must be at least 1")
    if args.engine not in ENGINES:
        raise GsscError(f"unknown --engine {args.engine!r}: {nearest(args.engine, ENGINES)}")
    if args.engine == "ray":
        require_all(("ray", "ray"))
        from gssc.evaluate.ray_executor import RayData

        executor: Any = RayData(score_file, args.jobs)
    else:
        executor = LocalProcesses(score_file, args.jobs or 1)
    done, total = 0, expected_rows(args.rows, args.out)
    written = WrittenRows(Path(args.out))
    with ProgressBar("scoring", total, "rows", watch=written.count) as bar:
        if not args.overwrite:
            bar.skip(written.count())

        def show(result: dict[str, Any], files: int) -> None:
            nonlocal done
            done += 1
            line = f"{done} of {files} files: {result['name']}, {counted(result['rows'], 'row')}"
            bar.console.print(line, soft_wrap=True)

        found = score(args.run, args.rows, args.out, executor, args.overwrite, on_file=show, decimal=args.decimal)
    Console(markup=False, highlight=False).print(
        f"{counted(found.rows, 'row')} of {counted(found.files, 'file')} in {found.seconds:.1f} s, "
        f"written to {counted(found.parts, 'part')} in {args.out}",
        soft_wrap=True,
    )


def expected_rows(source: str, out: str) -> int | None:
    """Return the number of rows of all input files, estimated for text tables; None if one of them is unknown."""
    from gssc.deploy import row_count
    from gssc.scoring.score import input_files

    counts = [row_count(path) for _, path in input_files(Path(source), Path(out))]
    return sum(count for count in counts if count is not None) if None not in counts else None


class WrittenRows:
    """Counts the rows that are scored, in finished parts and in those being written; each part is opened once.

    Args:
        folder: where the parts are written, by any process.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._rows: dict[str, int] = {}

    def count(self) -> int:
        """Return the number of rows of all files."""
        from gssc.deploy import row_count
        from gssc.scoring.parts import ROWS_PREFIX
        from gssc.scoring.score import PARTS

        parts = {path.name: path for path in self.folder.glob(PARTS)}
        self._rows = {name: self._rows.get(name) or row_count(path) or 0 for name, path in parts.items()}
        of_files: Counter[str] = Counter()
        for name, rows in self._rows.items():
            of_files[name.split("-")[1]] += rows
        for path in self.folder.glob(f"{ROWS_PREFIX}*"):
            with suppress(OSError, ValueError):  # the file has just been finished, or is being written
                number = path.name.removeprefix(ROWS_PREFIX)
                of_files[number] = max(of_files[number], int(path.read_text(encoding="ascii")))
        return sum(of_files.values())

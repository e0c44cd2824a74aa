"""Tables of results/baselines.md and results/settings.md from a store of `gssc bench`.

    python benchmarks/comparison_tables.py --store results.sqlite

The commands that fill the store are in those two files. Each table is written between two markers of its file; the text
around it stays. Published values are those of Tables 1 and 2 of the paper.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from gssc.evaluate.export import markdown
from gssc.evaluate.store import Store
from gssc.evaluate.summary import result_table

ROOT = Path(__file__).resolve().parents[1]
GSSC = ("str_contrast", "str_sparse")
PUBLISHED = {
    "cora": {
        "gcn": 81.28, "gat": 83.02, "sage": 82.22, "sgc": 80.88, "appnp": 83.28, "dagnn": 84.30, "nagphormer": 84.24,
        "sgformer": 84.50, "mlp": 61.86, "graph_mlp": 81.45, "link_dist": 76.70, "str_contrast": 83.16,
        "str_contrast+str_sparse": 85.28,
    },
    "citeseer": {
        "gcn": 71.06, "gat": 72.56, "sage": 71.22, "sgc": 71.84, "appnp": 71.74, "dagnn": 73.14, "nagphormer": 72.45,
        "sgformer": 72.60, "mlp": 59.76, "graph_mlp": 72.87, "link_dist": 65.19, "str_contrast": 71.89,
        "str_contrast+str_sparse": 73.74,
    },
    "actor:fixed": {
        "gcn": 30.1, "gat": 29.8, "sgc": 27.0, "appnp": 31.1, "h2gcn": 34.4, "sign": 36.5, "glognn": 36.4,
        "sgformer": 37.9, "str_contrast+str_sparse": 37.5,
    },
    "squirrel": {
        "gcn": 38.6, "gat": 35.6, "sgc": 39.3, "appnp": 35.3, "h2gcn": 35.1, "sign": 40.7, "glognn": 35.7,
        "sgformer": 41.8, "str_contrast+str_sparse": 43.1,
    },
    "chameleon": {
        "gcn": 41.3, "gat": 39.2, "sgc": 39.0, "appnp": 38.4, "h2gcn": 38.1, "sign": 41.7, "glognn": 40.2,
        "sgformer": 44.9, "str_contrast+str_sparse": 45.7,
    },
    "actor": {
        "gcn": 24.84, "gat": 26.28, "sage": 26.54, "sgc": 25.24, "appnp": 27.82, "dagnn": 28.98, "graph_mlp": 25.40,
        "link_dist": 23.96, "str_contrast": 27.96, "str_contrast+str_sparse": 31.24,
    },
}  # fmt: skip


def beside_published(rows: list[dict[str, Any]], datasets: list[str]) -> str:
    """Return a table with one line per method: our value, the published value, the difference, number of runs."""
    table = result_table(rows)
    head = ["method"]
    for dataset in datasets:
        head += [dataset, "published", "difference", "runs"]
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for method, cells in table.scores.items():
        line = [method]
        for dataset in datasets:
            known = [score for score in cells.get(dataset, {}).values() if score is not None]
            published = PUBLISHED.get(dataset, {}).get(method)
            line.append(f"{mean(known):.2f} ± {pstdev(known):.2f}" if known else "-")
            line.append("-" if published is None else f"{published:.2f}")
            line.append(f"{mean(known) - published:+.2f}" if known and published is not None else "-")
            line.append(str(len(known)))
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def wanted(rows: list[dict[str, Any]], datasets: list[str], settings: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the clean, full runs on these datasets in these settings, of the methods in the tables only."""
    return [
        row
        for row in rows
        if row["dataset"] in datasets
        and row["setting"] in settings
        and row["max_epochs"] == 0
        and {row["label_noise"], row["structure_noise"], row["feature_noise"]} == {"none"}
        and (row["sparsifier"] == "none" or (row["model"], row["sparsifier"]) == GSSC)
        and row["status"] == "done"
    ]


def put(page: Path, name: str, text: str) -> None:
    """Replace the text between the markers of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{head}{begin}\n{text.strip()}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    """Write every table whose runs are in the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("results.sqlite"))
    rows = Store(parser.parse_args().store).runs()
    baselines, settings = ROOT / "results" / "baselines.md", ROOT / "results" / "settings.md"
    transductive = ("transductive",)
    for name, datasets in (
        ("citation", ["cora", "citeseer"]),
        ("heterophilous", ["actor:fixed", "squirrel", "chameleon"]),
        ("actor", ["actor"]),
    ):
        put(baselines, name, beside_published(wanted(rows, datasets, transductive), datasets))
    coauthor = wanted(rows, ["coauthor-cs", "coauthor-physics"], transductive)
    put(baselines, "coauthor", markdown(result_table(coauthor)))
    every = wanted(rows, ["cora", "citeseer"], transductive)
    put(baselines, "ranks", markdown(result_table(every)))
    contestants = ("mlp", "gcn", "sage", "glnn", "str_contrast")
    for dataset in ("cora", "citeseer", "coauthor-cs"):
        chosen = wanted(rows, [dataset], ("transductive", "inductive", "cold-start"))
        chosen = [row for row in chosen if row["model"] in contestants]
        settled = {row["seed"] for row in chosen if row["setting"] == "cold-start"}
        same = [row for row in chosen if row["seed"] in settled]
        if same:
            put(settings, dataset, markdown(result_table(same, against="gcn")))


if __name__ == "__main__":
    main()

"""The default learner on real graphs that need no download: the modules of installed packages and their imports.

    python benchmarks/real_graphs.py --packages torch,ray,sqlalchemy --draws 2 --out real.jsonl
    python benchmarks/real_graphs.py --table real.jsonl

A node is a module. Its features count the words of its docstrings and comments, its class is the subpackage it belongs
to, and an edge joins two modules of which one imports the other. Words that name a subpackage are left out, as are
modules with fewer than 10 different words and subpackages with fewer than 15 modules. Each draw has 10 labels per class
and 100 validation labels or none; all other nodes are test nodes. In the cold-start setting only models that predict
without the graph are compared. All models have their default settings. Each problem is one JSON line; problems that are
already in the file are skipped. The versions in constraints.txt determine the graphs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import ast
import importlib.util
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from gssc.graph import Graph
from gssc.recipes import config_for
from gssc.result import fit

GRAPH_FREE = ("linear_rows", "ridge_student", "glnn", "mlp")
NEED_GRAPH = ("gcn", "sage", "linear_spread", "linear_both")
FEWEST_MODULES, FEWEST_WORDS, WORDS = 15, 10, 1500
FREQUENT = 50  # the most frequent words, which tell little and are left out
PER_CLASS = 10
CLOSE = 0.5  # points: within them two models count as equal


def modules_of(package: str) -> dict[str, Path]:
    """Return the files of a package's modules by name, tests left out."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{package} is not an installed package")
    root = Path(next(iter(found.submodule_search_locations)))
    paths = {".".join([package, *path.relative_to(root).with_suffix("").parts]): path for path in root.rglob("*.py")}
    named = {name.removesuffix(".__init__"): path for name, path in sorted(paths.items())}
    return {name: path for name, path in named.items() if not {"test", "tests"} & set(name.split("."))}


def parsed_or_none(source: str) -> ast.Module | None:
    """Return the syntax tree of a module; None for a file that is not Python, such as a template."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def imported(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Yield the names that may be modules in the import statements of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def words_of(source: str, tree: ast.Module) -> str:
    """Return the docstrings and comments of a module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = (ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented))
    return " ".join([*docstrings, *re.findall(r"#(.*)", source)])


def module_graph(package: str) -> Graph:
    """Return the graph of a package's modules, without a split."""
    files = modules_of(package)
    classes = {name: name.split(".")[1] for name in files if name.count(".") >= 2}
    sources = {name: files[name].read_text(encoding="utf-8", errors="ignore") for name in classes}
    trees = {name: parsed for name, source in sources.items() if (parsed := parsed_or_none(source)) is not None}
    classes = {name: classes[name] for name in trees}
    subpackages = sorted(set(classes.values()))
    counter = CountVectorizer(token_pattern=r"[a-z]{3,}", stop_words=[package, *subpackages], min_df=2)
    counts = counter.fit_transform(words_of(sources[name], trees[name]) for name in classes)
    usual = np.argsort(-counts.getnnz(axis=0), kind="stable")[FREQUENT : FREQUENT + WORDS]
    counts = counts[:, np.sort(usual)].astype(np.float32)
    kept = counts.getnnz(axis=1) >= FEWEST_WORDS
    sizes = Counter(classes[name] for name, has_words in zip(classes, kept, strict=True) if has_words)
    kept &= [sizes[subpackage] >= FEWEST_MODULES for subpackage in classes.values()]
    names = [name for name, stays in zip(classes, kept, strict=True) if stays]
    number = {name: place for place, name in enumerate(names)}
    edges = {
        tuple(sorted((number[name], number[other])))
        for name in names
        for other in imported(trees[name], name, files[name].name == "__init__.py")
        if other in number and other != name
    }
    shown, labels = np.unique([classes[name] for name in names], return_inverse=True)
    return Graph(counts[kept], np.array(sorted(edges)).T, labels, class_names=tuple(shown), name=f"{package} modules")


def split(graph: Graph, validation: int, setting: str, seed: int) -> Graph:
    """Return the graph with 10 labels per class, some validation labels, and all other nodes as test nodes."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    classes = range(graph.num_classes)
    train = np.concatenate([order[graph.labels[order] == label][:PER_CLASS] for label in classes])
    val, test = np.split(np.setdiff1d(order, train)[rng.permutation(graph.num_nodes - len(train))], [validation])
    return graph.with_(train=train, val=val, test=test, setting=setting)


def run(package: str, graph: Graph, validation: int, setting: str, draw: int) -> dict[str, Any]:
    """Return the test accuracy of every model on one problem."""
    problem = split(graph, validation, setting, draw)
    found: dict[str, Any] = {"package": package, "validation": validation, "setting": setting, "draw": draw}
    for model in ("gssc", *GRAPH_FREE, *(NEED_GRAPH if setting == "transductive" else ())):
        started = time.process_time()
        result = fit(problem, config_for(model, problem.name, problem.split, {"train": {"seed": draw}}))
        found[model], found[f"{model} s"] = round(100 * result.test_score, 2), round(time.process_time() - started, 1)
    return found


def table(paths: list[str]) -> None:
    """Print the mean of every model by setting, and how often each rival is ahead of the learner or behind it."""
    rows = [json.loads(line) for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()]
    sys.stdout.write(
        "| setting | rival | problems | mean of GSSC | mean of the rival | GSSC ahead | equal | behind |\n"
    )
    sys.stdout.write(f"{'|---' * 8}|\n")
    for setting in dict.fromkeys(row["setting"] for row in rows):
        for rival in (*GRAPH_FREE, *NEED_GRAPH):
            both = np.array([(row["gssc"], row[rival]) for row in rows if row["setting"] == setting and rival in row])
            if len(both):
                lead = both[:, 0] - both[:, 1]
                ahead, behind = int((lead > CLOSE).sum()), int((lead < -CLOSE).sum())
                means = " | ".join(f"{mean:.1f}" for mean in both.mean(axis=0))
                counts = f"{ahead} | {len(both) - ahead - behind} | {behind}"
                sys.stdout.write(f"| {setting} | {rival} | {len(both)} | {means} | {counts} |\n")


def main() -> None:
    """Run problems one after another, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", default="torch,ray,sqlalchemy,torch_geometric,fontTools,rdkit")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", default="real_graphs.jsonl")
    parser.add_argument("--table", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.table:
        table(args.table)
        return
    out, keys = Path(args.out), ("package", "validation", "setting", "draw")
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    done = {tuple(row[key] for key in keys) for row in rows}
    for package in args.packages.split(","):
        graph = module_graph(package)
        alike = float((graph.labels[graph.edges[0]] == graph.labels[graph.edges[1]]).mean())
        sys.stderr.write(f"{graph}, homophily {alike:.2f}\n")
        problems = [(v, s, d) for d in range(args.draws) for v in (100, 0) for s in ("transductive", "cold-start")]
        for problem in problems:
            if (package, *problem) not in done:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(run(package, graph, *problem)) + "\n")


if __name__ == "__main__":
    main()

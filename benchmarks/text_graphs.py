"""Real graphs whose nodes are texts, read from what a machine has or its package registry provides.

============  ==============  =======================  ======================  ======================================
name          node            features: words of       edge                    class
============  ==============  =======================  ======================  ======================================
``modules``   Python module   docstrings and comments  import                  subpackage
``debian``    Debian package  its short description    dependency of any kind  section of the archive
``wordnet``   WordNet synset  its definition           relation of any kind    lexicographer file, such as noun.animal
============  ==============  =======================  ======================  ======================================

Rare classes, rare words and nodes with few words are left out, as are the most frequent words of modules and words that
name a subpackage. The file of Debian packages is the output of ``apt-cache dumpavail``; those of WordNet are in the
Debian package wordnet-base.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from gssc.graph import Graph

FEWEST_MODULES, FEWEST_WORDS, WORDS = 15, 10, 1500
FREQUENT = 50  # the most frequent words of modules, which tell little and are left out
FEWEST_PACKAGES = 400  # per section
DEPENDENCIES = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")


def read(name: str) -> Graph:
    """Return the graph of a name such as ``modules:torch``, ``debian:available.txt`` or ``wordnet:data.verb``.

    A third part is a number of nodes: that many nodes around a random one (``debian:available.txt:3000``). The seed of
    the choice is a fourth part, 0 if left out.
    """
    kind, source, *sample = name.split(":")
    graph = {"modules": module_graph, "debian": debian_graph, "wordnet": wordnet_graph}[kind](source)
    return around(graph, *map(int, sample)) if sample else graph


def around(graph: Graph, size: int, seed: int = 0) -> Graph:
    """Return the subgraph of the ``size`` nodes that a search from a random node finds first, breadth first.

    Each node's neighbours are visited in random order, and at most 10 of them. Rare classes are then left out.
    """
    rng = np.random.default_rng(seed)
    adjacency, found, reached = graph.to_scipy(), [], set()
    for start in rng.permutation(graph.num_nodes).tolist():
        queue = [start]
        while queue and len(found) < size:
            node = queue.pop(0)
            if node not in reached:
                reached.add(node)
                found.append(node)
                others = adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]
                queue += rng.permutation(others)[:10].tolist()
        if len(found) == size:
            break
    kept = np.sort(np.array(found))
    common = np.bincount(graph.labels[kept]) >= FEWEST_MODULES
    return some_nodes(graph, kept[common[graph.labels[kept]]])


def some_nodes(graph: Graph, kept: np.ndarray) -> Graph:
    """Return the graph of some nodes, whose classes are numbered anew."""
    number = np.full(graph.num_nodes, -1)
    number[kept] = np.arange(len(kept))
    edges = number[graph.edges]
    shown, labels = np.unique(graph.labels[kept], return_inverse=True)
    names = tuple(graph.class_names[place] for place in shown)
    edges = edges[:, (edges >= 0).all(axis=0)]
    return Graph(graph.features[kept], edges, labels, class_names=names, name=graph.name)


def text_graph(
    name: str, texts: list[str], classes: list[str], related: Iterable[tuple[int, int]], fewest: int
) -> Graph:
    """Return the graph of texts that have a word at all and whose class has at least ``fewest`` of them."""
    counter = CountVectorizer(token_pattern=r"[a-z]{3,}", stop_words="english", min_df=5, max_features=2 * WORDS)
    counts = sp.csr_matrix(counter.fit_transform(texts), dtype=np.float32)
    shown, labels = np.unique(classes, return_inverse=True)
    has_words = counts.getnnz(axis=1) > 0
    common = np.bincount(labels[has_words], minlength=len(shown)) >= fewest
    edges = np.unique(np.sort([pair for pair in related if pair[0] != pair[1]], axis=1), axis=0).T
    graph = Graph(counts, edges, labels, class_names=tuple(shown), name=name)
    return some_nodes(graph, np.flatnonzero(has_words & common[labels]))


def wordnet_graph(path: str) -> Graph:
    """Return the graph of the synsets in a data file of WordNet, such as ``data.verb``."""
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if not line.startswith(" ")]
    number = {line[:8]: place for place, line in enumerate(lines)}
    texts, classes, related = [], [], []
    for place, line in enumerate(lines):
        facts, definition = line.split("|", 1)
        parts = facts.split()
        kind, after = parts[2], 4 + 2 * int(parts[3], 16)  # the words of the synset stand before the relations
        relations = (parts[after + 1 + 4 * step :][:4] for step in range(int(parts[after])))
        alike = "s" if kind == "a" else kind
        ends = (number[other] for _, other, of_kind, _ in relations if of_kind in (kind, alike) and other in number)
        related += [(place, end) for end in ends]
        texts.append(definition.lower())
        classes.append(parts[1])
    return text_graph(Path(path).name, texts, classes, related, FEWEST_MODULES)


def debian_graph(path: str) -> Graph:
    """Return the graph of Debian packages in a file written by ``apt-cache dumpavail``."""
    blocks = Path(path).read_text(encoding="utf-8").split("\n\n")
    about = [dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", block, re.MULTILINE)) for block in blocks if block.strip()]
    about = list({fields["Package"]: fields for fields in about if "Section" in fields}.values())
    number = {fields["Package"]: place for place, fields in enumerate(about)}
    related = [
        (place, number[other])
        for place, fields in enumerate(about)
        for kind in DEPENDENCIES
        for other in re.findall(r"(?:^|[,|]) ?([a-z0-9][a-z0-9+.-]+)", fields.get(kind, ""))
        if other in number
    ]
    texts = [fields.get("Description", "").lower() for fields in about]
    return text_graph("debian", texts, [fields["Section"] for fields in about], related, FEWEST_PACKAGES)


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

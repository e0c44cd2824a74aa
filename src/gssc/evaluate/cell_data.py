"""Where a cell's graph comes from: a dataset of the registry, or a graph file of your own."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from gssc.config import parse_config
from gssc.data.entry import Dataset
from gssc.data.fetch import fetch
from gssc.data.registry import find_dataset, load_dataset
from gssc.errors import GsscError
from gssc.evaluate.code_version import code_version
from gssc.files import sha256
from gssc.graph import Graph
from gssc.run_graph import named_graph

DRAWN = r"(per-class|ratio):"  # splits that are drawn by a seed


class CellData(Protocol):
    """One graph with one split."""

    @property
    def name(self) -> str:
        """The name of the dataset in recipes."""
        ...

    @property
    def split(self) -> str:
        """The name of its split."""
        ...

    @property
    def checksum(self) -> str:
        """A digest of the data."""
        ...

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that read it."""
        ...

    def load(self, setting: str) -> Graph:
        """Return the graph in a learning setting."""
        ...


@dataclass(frozen=True)
class Registered:
    """A dataset of the registry, such as ``cora`` or ``actor:fixed``.

    Of several numbered splits seed s uses the s-th. A random split (``per-class:20``) and a generated dataset are drawn
    by the seed.
    """

    text: str
    seed: int

    @property
    def dataset(self) -> Dataset:
        """Its entry in the registry."""
        return find_dataset(self.text.partition(":")[0])

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return self.dataset.name

    @property
    def split(self) -> str:
        """The split of this seed."""
        dataset = self.dataset
        split = self.text.partition(":")[2] or re.sub(r"-\d+$", "", dataset.default_split)
        for offered in dataset.splits:
            if numbered := re.fullmatch(r"(.+)-0 to \1-(\d+)", offered):
                family, last = numbered[1], int(numbered[2])
                if split == family:
                    return f"{family}-{self.seed % (last + 1)}"
                if re.fullmatch(rf"{family}-\d+", split) and int(split.rpartition("-")[2]) <= last:
                    return split
        known = [offered.partition(" ")[0] for offered in dataset.splits]
        if split not in known and not re.match(DRAWN, split):
            raise GsscError(f"{dataset.name} has no split {split!r}: it offers {', '.join(dataset.splits)}")
        return split

    @property
    def checksum(self) -> str:
        """One digest of its files; a generated one is determined by the code and the seed."""
        dataset = self.dataset
        if not dataset.files:
            return code_version("gssc.data.synthetic")
        parts = [f"{file.name} {file.sha256}" for file in dataset.files if not file.optional]
        if any(part.endswith(" None") for part in parts):
            parts = [f"{name} {sha256(path)}" for name, path in sorted(fetch(dataset, None).items())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that load it and that make splits."""
        return self.dataset.load.__module__, "gssc.data.registry"

    def load(self, setting: str) -> Graph:
        """Return the graph in a learning setting; reads or generates it."""
        dataset, split = self.dataset, self.split
        generated = not dataset.files and split == dataset.default_split
        drawn = not dataset.files or re.match(DRAWN, split)
        seed = self.seed if drawn else 0
        return load_dataset(dataset.name, split=None if generated else split, seed=seed, setting=setting)


@dataclass(frozen=True)
class OwnGraph:
    """A graph file of your own, with the split it has or, as in ``mine.npz:ratio:60/20/20``, one drawn by the seed."""

    path: str
    drawn_split: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the file, with its suffix, so that no recipe matches it."""
        return Path(self.path).name

    @property
    def split(self) -> str:
        """The split that is drawn, or ``own``."""
        return self.drawn_split or "own"

    @property
    def checksum(self) -> str:
        """A digest of the content, wherever the file is."""
        files = sorted(item for item in Path(self.path).rglob("*") if item.is_file()) or [Path(self.path)]
        parts = [_digest(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that read a graph file and that make splits."""
        return "gssc.graph", "gssc.data.npz", "gssc.data.splits"

    def load(self, setting: str) -> Graph:
        """Return the graph in a learning setting."""
        data = {"graph": self.path, "split": self.drawn_split or None, "split_seed": self.seed, "setting": setting}
        return named_graph(parse_config({"data": data}).data).with_(name=self.name)


@lru_cache
def _digest(path: str, size: int, changed: int) -> str:
    """Return the SHA-256 of a file, cached by path, size and modification time."""
    return sha256(path)


def split_graph_option(text: str) -> tuple[str, str]:
    """Return the path in an option such as ``mine.npz:per-class:20``, and the split to draw; empty for its own split.

    >>> split_graph_option("data/mine.npz:ratio:60/20/20")
    ('data/mine.npz', 'ratio:60/20/20')
    """
    if found := re.search(rf":{DRAWN}", text):
        return text[: found.start()], text[found.start() + 1 :]
    return text, ""

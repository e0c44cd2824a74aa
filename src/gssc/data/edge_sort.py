"""Sort undirected edges and remove duplicates in bounded memory, however many edges are listed.

Listed edges go to bucket files by their smaller end. Each bucket is then sorted on its own, and duplicates are removed.
Since a bucket holds a range of nodes, the concatenated sorted buckets are the sorted edges.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gssc.data.checks import Cleaning
from gssc.data.npy_files import bytes_of, cut_short, damaged, write_values
from gssc.errors import GsscError

BUCKETS = 64
MOST_RECORDS = 1 << 23  # largest bucket that is sorted in memory; a larger one is divided first
MOST_NODES = 2**31 - 1  # the number of a directed edge must fit into 63 bits


class EdgeSort:
    """Takes edges in blocks and returns them sorted, without duplicates.

    A listed edge is stored as one number, ``2 (u N + v) + reversed`` with u < v, so that sorting numbers sorts edges.

    Args:
        folder: where bucket files go.
        num_nodes: N.
        weighted: whether edges have weights; a repeated edge keeps its largest weight.
        most_records: size of the largest bucket that is sorted in memory.

    Attributes:
        self_loops: number of self-loops dropped so far.
        checksums: CRC-32 of what was written to each bucket file.
    """

    def __init__(self, folder: Path, num_nodes: int, weighted: bool = False, most_records: int = MOST_RECORDS):
        if num_nodes > MOST_NODES:
            raise GsscError(f"the graph has {num_nodes:,} nodes, more than the {MOST_NODES:,} that can be sorted")
        self.folder, self.num_nodes, self.weighted, self.most_records = folder, num_nodes, weighted, most_records
        self.record = np.dtype([("key", "<i8"), ("weight", "<f4")] if weighted else [("key", "<i8")])
        # The smaller end of a random pair is below x with probability 1 - (1 - x / N)^2.
        shares = 1 - np.sqrt(1 - np.arange(1, BUCKETS) / BUCKETS)
        self.bounds = np.ceil(shares * num_nodes).astype(np.int64)
        self.self_loops, self.checksums = 0, [0] * BUCKETS

    def add(self, edges: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Append a block of listed edges [2, n] to the bucket files."""
        first, second = edges.astype(np.int64)
        outside = np.flatnonzero((np.minimum(first, second) < 0) | (np.maximum(first, second) >= self.num_nodes))
        if len(outside):
            at = int(outside[0])
            raise GsscError(
                f"edge ({first[at]}, {second[at]}) names a node that does not exist: node numbers run from 0 to "
                f"{self.num_nodes - 1}; drop the edge or add the node"
            )
        if self.weighted and weights is not None:
            with np.errstate(over="ignore", under="ignore"):
                usable = weights.astype(np.float32)
            valid = np.isfinite(usable) & (usable > 0)
            if not valid.all():
                at = int(valid.argmin())
                raise GsscError(
                    f"the weight of edge ({first[at]}, {second[at]}) is {weights[at]}: weights must be above 0 and "
                    "finite (float32); drop the edge or leave out the weights"
                )
        proper = first != second
        self.self_loops += int((~proper).sum())
        first, second = first[proper], second[proper]
        records = np.empty(len(first), dtype=self.record)
        lower = np.minimum(first, second)
        records["key"] = 2 * (lower * self.num_nodes + np.maximum(first, second)) + (first > second)
        if self.weighted:
            records["weight"] = 1 if weights is None else weights[proper]
        bucket = np.searchsorted(self.bounds, lower, side="right")
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
        for number in np.unique(bucket).tolist():
            with self._path(number).open("ab") as file:
                chosen = records[order[ends[number] : ends[number + 1]]]
                self.checksums[number] = write_values(file, chosen, self.checksums[number])

    def state_dict(self) -> dict[str, Any]:
        """Return sizes and checksums of the bucket files and the counts, from which a killed build can resume."""
        paths = [self._path(number) for number in range(BUCKETS)]
        return {
            "self_loops": self.self_loops,
            "checksums": list(self.checksums),
            "sizes": [path.stat().st_size if path.exists() else 0 for path in paths],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`: anything written later is cut off."""
        self.load_counts(state)
        for number, size in enumerate(state["sizes"]):
            path = self._path(number)
            path.touch()
            if path.stat().st_size < size:
                raise cut_short(path)
            with path.open("r+b") as file:
                file.truncate(size)

    def load_counts(self, state: dict[str, Any]) -> None:
        """Restore the counts and checksums of a state of :meth:`state_dict`; files stay as they are."""
        self.self_loops, self.checksums = state["self_loops"], list(state["checksums"])

    def sort_bucket(self, number: int) -> dict[str, Any]:
        """Sort one bucket to its own file and return counts of edges, duplicates, one-way and reversed edges.

        They include the checksum of the file. Raises GsscError if the bucket file is not as it was written.
        """
        total = {"edges": 0, "duplicates": 0, "one_way": 0, "reversed": 0, "checksum": 0}
        temporary = self._sorted(number).with_suffix(".part")
        with temporary.open("wb") as out:
            for records in self._divided(number):
                kept, counts = self._without_repeats(records)
                total = {name: count + counts.get(name, 0) for name, count in total.items()}
                total["checksum"] = write_values(out, kept, total["checksum"])
        temporary.replace(self._sorted(number))
        return total

    def forget_bucket(self, number: int) -> None:
        """Delete the unsorted file of a sorted bucket."""
        self._path(number).unlink(missing_ok=True)

    def sorted_edges(self, number: int, counts: dict[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yield the edges [2, n] of a sorted bucket and their weights, in parts.

        Raises GsscError if the file is missing or, after the last part, if it is not as it was written.

        Args:
            number: number of the bucket.
            counts: what :meth:`sort_bucket` returned for it.
        """
        path, edges, checksum = self._sorted(number), 0, 0
        if not path.exists():
            raise cut_short(path)
        with path.open("rb") as file:
            while len(records := np.fromfile(file, dtype=self.record, count=self.most_records)):
                edges, checksum = edges + len(records), zlib.crc32(bytes_of(records), checksum)
                yield np.stack(np.divmod(records["key"], self.num_nodes)), records["weight"] if self.weighted else None
        if edges < counts["edges"]:
            raise cut_short(path)
        if checksum != counts["checksum"]:
            raise damaged(path)

    def cleaning(self, counts: list[dict[str, Any]]) -> Cleaning:
        """Return the total changes of all buckets; if every edge is listed once as (u, v), none counts as one-way."""
        duplicates, one_way, reverse = (
            sum(count[name] for count in counts) for name in ("duplicates", "one_way", "reversed")
        )
        return Cleaning(self.self_loops, duplicates, one_way if reverse else 0)

    def _without_repeats(self, records: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
        records = records[np.argsort(records["key"], kind="stable")]
        directed, edge = records["key"], records["key"] >> 1
        new_directed = np.diff(directed, prepend=-1) != 0
        starts = np.flatnonzero(np.diff(edge, prepend=-1) != 0)
        kept = np.empty(len(starts), dtype=self.record)
        kept["key"] = edge[starts]
        if self.weighted:
            kept["weight"] = np.maximum.reduceat(records["weight"], starts) if len(starts) else []
        ways = np.add.reduceat(new_directed.astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)
        counts = {
            "edges": len(starts),
            "duplicates": int(len(records) - new_directed.sum()),
            "one_way": int((ways == 1).sum()),
            "reversed": int((directed & 1).sum()),
        }
        return kept, counts

    def _divided(self, number: int) -> Iterator[np.ndarray]:
        """Yield the records of a bucket in order, in parts of bounded size, each a range of numbers."""
        path, written = self._path(number), self.checksums[number]
        if not path.exists():
            if written:
                raise cut_short(path)
            return
        count = path.stat().st_size // self.record.itemsize
        if count <= self.most_records:
            records = np.fromfile(path, dtype=self.record)
            if zlib.crc32(bytes_of(records)) != written:
                raise damaged(path)
            yield records
            return
        mapped = np.memmap(path, dtype=self.record, mode="r")
        sample = np.sort(mapped["key"][:: max(1, count // 100_000)] >> 1)
        parts = 2 * -(-count // self.most_records)
        bounds = np.unique(sample[np.linspace(0, len(sample) - 1, parts + 1)[1:-1].astype(np.int64)])
        for low, high in zip([-1, *bounds.tolist()], [*bounds.tolist(), 2**62], strict=True):
            chosen, checksum = [], 0
            for start in range(0, count, self.most_records):
                block = np.array(mapped[start : start + self.most_records])
                checksum = zlib.crc32(bytes_of(block), checksum)
                edge = block["key"] >> 1
                chosen.append(block[(edge > low) & (edge <= high)])
            if checksum != written:
                raise damaged(path)
            yield np.concatenate(chosen)

    def _path(self, number: int) -> Path:
        return self.folder / f"bucket-{number:02d}.bin"

    def _sorted(self, number: int) -> Path:
        return self.folder / f"sorted-{number:02d}.bin"

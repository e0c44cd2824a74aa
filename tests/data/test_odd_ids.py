"""Ids and columns at the limits of their types, in Parquet tables: kept exactly, or refused with their row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gssc.data import graph_stream, table_stream
from gssc.data.build import build_graph
from gssc.data.table_stream import TableStream
from gssc.data.tables import import_tables
from gssc.errors import GsscError
from gssc.graph import Graph

COUNT = 40


def written(folder: Path, ids: pa.Array, ends: pa.Array | None = None, **columns: pa.Array) -> tuple[Path, Path]:
    """Write a ring of nodes and its edges; return both paths."""
    label = pa.array(["a", "b"] * (COUNT // 2))
    features = {"x": pa.array(np.arange(COUNT) / 10)}
    pq.write_table(pa.table({"id": ids, **features, "label": label, **columns}), folder / "nodes.parquet")
    ends = ids if ends is None else ends
    after = pa.array(np.roll(np.arange(COUNT), 1))
    pq.write_table(pa.table({"source": ends, "target": ends.take(after)}), folder / "edges.parquet")
    return folder / "nodes.parquet", folder / "edges.parquet"


def built(nodes: Path, edges: Path) -> Graph:
    place = nodes.parent / "made.graph"
    build_graph(TableStream(nodes, edges, split="per-class:2"), place, overwrite=place.exists())
    return Graph.load(place)


def imported(nodes: Path, edges: Path) -> Graph:
    return import_tables(nodes, edges, split="per-class:2")


WAYS = pytest.mark.parametrize("read", [built, imported])


@WAYS
@pytest.mark.parametrize("first", [2**63 - 60, 2**63 - 20, 2**63, 2**64 - COUNT])
def test_ids_beyond_int64_are_kept(tmp_path: Path, read, first: int) -> None:
    ids = [first + number for number in range(COUNT)]
    graph = read(*written(tmp_path, pa.array(ids, pa.uint64())))
    assert [int(name) for name in graph.node_ids] == ids
    assert graph.num_edges == COUNT


@WAYS
def test_an_edge_to_a_number_beyond_int64_names_an_unknown_node(tmp_path: Path, read) -> None:
    ends = ["99999999999999999999", *map(str, range(1, COUNT))]
    with pytest.raises(GsscError, match=r"edges.parquet row 1: the edge names node '9{20}', which"):
        read(*written(tmp_path, pa.array(range(COUNT)), pa.array(ends)))
    with pytest.raises(GsscError, match="the edge names node '18446744073709551615', which"):
        read(
            *written(tmp_path, pa.array([*range(COUNT - 1), -1]), pa.array([2**64 - 1, *range(1, COUNT)], pa.uint64()))
        )


@WAYS
def test_texts_find_the_largest_numbers(tmp_path: Path, read) -> None:
    ids = [2**63 - 1 - number for number in range(COUNT)]
    assert read(*written(tmp_path, pa.array(ids), pa.array(map(str, ids)))).num_edges == COUNT


@WAYS
def test_ids_that_a_real_number_rounds_are_refused(tmp_path: Path, read) -> None:
    ids = pa.array([2**53 - 50 + number for number in range(COUNT)])
    assert read(*written(tmp_path, ids, ids.cast(pa.float64()))).num_edges == COUNT
    rounded = pa.array([float(2**53 + 2 * (number // 2)) for number in range(COUNT)])
    with pytest.raises(GsscError, match=r"edges.parquet row 1: the id in column 'source' is .* too large to be exact"):
        read(*written(tmp_path, pa.array([2**53 + number for number in range(COUNT)]), rounded))


@WAYS
def test_an_id_that_would_widen_all_others_is_refused(tmp_path: Path, read) -> None:
    ids = pa.array([str(number) for number in range(COUNT - 1)] + ["x" * 100_000])
    with pytest.raises(GsscError, match=f"nodes.parquet row {COUNT}: the id in column 'id' has 100,000 characters"):
        read(*written(tmp_path, ids))


@WAYS
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ns"), pa.duration("s"), pa.date32()])
def test_dates_are_not_taken_for_numbers(tmp_path: Path, read, kind: pa.DataType) -> None:
    dates = pa.array(range(COUNT), pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    with pytest.raises(GsscError, match=r"nodes.parquet row 1, column 'when'.*(dates or times|not a number)"):
        read(*written(tmp_path, pa.array(range(COUNT)), when=dates))


def test_rows_are_counted_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_stream, "ROWS", 7)
    monkeypatch.setattr(table_stream, "EDGES", 7)
    holes = pa.array([None if number == 30 else 1.0 for number in range(COUNT)])
    with pytest.raises(GsscError, match=r"nodes.parquet row 31, column 'hole' is empty"):
        built(*written(tmp_path, pa.array(range(COUNT)), hole=holes))
    ends = pa.array([-5 if number == 30 else number for number in range(COUNT)])
    with pytest.raises(GsscError, match=r"edges.parquet row 31: the edge names node '-5'"):
        built(*written(tmp_path, pa.array(range(COUNT)), ends))

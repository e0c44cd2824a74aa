"""Node and edge tables become the graph they describe, or an error that names file and line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gssc import GSSCClassifier
from gssc.data import import_tables
from gssc.data.neighbours import nearest_neighbour_edges
from gssc.errors import GsscError
from gssc.graph import Graph

NODES = "id,age,label,height,split\na,1,cat,0.5,train\nb,2,dog,1.5,val\nc,3,,2.5,\nd,4,cat,-1e3,test\n"
EDGES = "source,target,note\na,b,1\nb,c,2\nd,c,x\n"


@pytest.fixture
def build(tmp_path: Path) -> Any:
    def make(nodes: str = NODES, edges: str = EDGES, **options: Any) -> Graph:
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        return import_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", **options)

    return make


def test_by_hand(build: Any) -> None:
    graph = build()
    assert graph.features.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5], [4, -1000]]
    assert graph.feature_names == ("age", "height")
    assert graph.class_names == ("cat", "dog")
    assert graph.labels.tolist() == [0, 1, -1, 0]
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert [part.tolist() for part in (graph.train, graph.val, graph.test)] == [[0], [1], [3]]
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert (graph.name, graph.split) == ("nodes", "from table")


def test_columns_named_by_the_user(build: Any) -> None:
    nodes = "x,who,kind,junk\n1,7,2,hello\n2,8,-1,world\n3,9,10,!\n"
    edges = "when,to,from\nmonday,7,8\ntuesday,9,8\n"
    graph = build(
        nodes, edges, id_column="who", label_column="kind", ignore_columns=["junk"], split="per-class:1", seed=5
    )
    assert graph.node_ids.tolist() == [7, 8, 9]
    assert graph.class_names == ("2", "10")
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.train.tolist() == [0, 2]
    assert graph.split == "1-per-class seed=5"
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert (
        build(
            nodes, edges, id_column="who", feature_columns=["x"], source_column="to", target_column="from"
        ).num_features
        == 1
    )


def test_no_header_no_labels_other_marks(build: Any) -> None:
    graph = build("0;1.5\n1;2\n\n2;3\n", "0\t1\n1\t2\n")
    assert graph.features.tolist() == [[1.5], [2], [3]]
    assert graph.num_edges == 2
    assert graph.num_classes == 0
    assert graph.split == "none"


def test_several_targets(build: Any) -> None:
    graph = build("id,x,t1,t2\na,1,0,1\nb,2,,1\n", "a,b\na,b\n", label_column=["t1", "t2"])
    assert not graph.task.has_classes
    np.testing.assert_array_equal(graph.labels, [[0, 1], [np.nan, 1]])
    assert graph.class_names == ("t1", "t2")


def test_row_numbers_that_pandas_writes_are_no_feature(build: Any) -> None:
    graph = build(",id,x\n0,a,1\n1,b,2\n2,c,4\n", ",from here,to there\n0,a,b\n1,b,c\n")
    assert graph.feature_names == ("x",)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]


def test_row_numbers_that_pandas_writes_to_parquet_are_no_feature(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    nodes = pandas.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]})
    nodes.iloc[[2, 0, 1]].to_parquet(tmp_path / "n.parquet")
    edges = pandas.DataFrame({"u": ["a", "b"], "v": ["b", "c"]})
    edges.iloc[[1, 0]].to_parquet(tmp_path / "e.parquet")
    graph = import_tables(tmp_path / "n.parquet", tmp_path / "e.parquet")
    assert graph.feature_names == ("x",)
    assert graph.num_edges == 2


@pytest.mark.parametrize(
    ("column", "labels", "class_names"),
    [
        (["0", "1", "0", "nan", "NA", "NaN"], [0, 1, 0, -1, -1, -1], ("0", "1")),
        (["cat", "-1", "dog", "", "NA", "cat"], [0, -1, 1, -1, -1, 0], ("cat", "dog")),
        (["-1", "1", "1", "-1", "", "1"], [0, 1, 1, 0, -1, 1], ("-1", "1")),
        (["-1", "+1", "+1", "-1", "", "+1"], [0, 1, 1, 0, -1, 1], ("-1", "+1")),
        (["1", "1.0", "a", "1.5", "2.00", "2"], [0, 0, 3, 2, 1, 1], ("1", "2", "1.5", "a")),
        (["Na", "Cl", "Na", "Cl", "Na", "Cl"], [1, 0, 1, 0, 1, 0], ("Cl", "Na")),
        (["+", "-", "+", "-", "+", "-"], [0, 1, 0, 1, 0, 1], ("+", "-")),
    ],
)
def test_what_a_label_column_means(
    build: Any, column: list[str], labels: list[int], class_names: tuple[str, ...]
) -> None:
    graph = build("id,x,label\n" + "".join(f"n{i},{i},{label}\n" for i, label in enumerate(column)), "u,v\nn0,n1\n")
    assert graph.class_names == class_names
    assert graph.labels.tolist() == labels


@pytest.mark.parametrize("label", ["0.37", ".5", "1e-3", "inf"])
def test_real_numbers_are_no_classes(build: Any, label: str) -> None:
    with pytest.raises(GsscError, match=rf"nodes\.csv:4, column 'y' is {label}: .*not regression"):
        build(f"id,x,y\na,1,0.0\nb,2,\nc,3,{label}\n", "u,v\na,b\n")


def test_edges_find_decimal_ids_however_they_are_written(build: Any) -> None:
    graph = build("id,x\n1.0,1\n1.5,2\n2.0,3\n", "u,v\n1.0,2.0\n1,2\n")
    assert graph.edges.tolist() == [[0], [2]]
    assert graph.node_ids.tolist() == ["1.0", "1.5", "2.0"]


def test_marks_inside_quotes_separate_nothing(build: Any) -> None:
    graph = build('id,"speed; km/h; ""avg""; max",label\na,1,p\nb,2,q\n', "u,v\na,b\n")
    assert graph.feature_names == ('speed; km/h; "avg"; max',)
    assert build('id;5" disk;label\na;1;p\nb;2;q\n', "u,v\na,b\n").feature_names == ('5" disk',)


def test_a_wrong_split_is_refused_without_labels(build: Any) -> None:
    with pytest.raises(GsscError, match="split 'nonsense' is not understood"):
        build("id,x\na,1\nb,2\n", "u,v\na,b\n", split="nonsense")
    assert build("id,x\na,1\nb,2\n", "u,v\na,b\n", split="ratio:60/20/20").split == "none"


def test_an_edge_list_of_names_without_a_header_keeps_its_first_edge(build: Any) -> None:
    nodes = "name,x\nalice,1\nbob,2\ncarol,3\n"
    assert build(nodes, "alice,bob\nbob,carol\n").num_edges == 2
    assert build(nodes, "one,other\nbob,carol\n").num_edges == 1
    assert build(nodes, "alice,bob\n").num_edges == 1


def test_a_first_line_that_is_half_an_edge_is_not_lost(build: Any) -> None:
    nodes = "name,x\nalice,1\nbob,2\ncarol,3\n"
    with pytest.raises(GsscError, match=r"edges\.csv: the first line names node 'alice' and 'zoe', which .*nodes\.csv"):
        build(nodes, "alice,zoe\nbob,carol\n")
    assert build(nodes, "alice,zoe\nbob,carol\n", source_column="alice", target_column="zoe").num_edges == 1


def test_columns_called_like_nodes_are_no_edge_where_they_are_surely_columns(build: Any, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    nodes = "id,x\n0,1\n1,2\n2,3\n3,4\n"
    (tmp_path / "nodes.csv").write_text(nodes)
    pq.write_table(arrow.table({"0": [2], "1": [3]}), tmp_path / "edges.parquet")
    assert import_tables(tmp_path / "nodes.csv", tmp_path / "edges.parquet").edges.tolist() == [[2], [3]]
    named = build("id,x\na,1\nb,2\nc,3\n", "a,b\nb,c\n", source_column="a", target_column="b")
    assert named.edges.tolist() == [[1], [2]]


def test_a_first_node_is_not_lost_as_if_it_were_a_header(build: Any) -> None:
    with pytest.raises(GsscError, match=r"nodes\.csv: the first line \(m1, 1, 2\) looks like data.*--id; "):
        build("m1,1,2\nm2,3,4\nm3,4,5\n", "m1,m3\nm2,m3\n")
    numbered = build("machine,0,1\nm1,1,2\nm2,3,4\n", "m1,m2\n")  # what pandas writes
    assert numbered.feature_names == ("0", "1")
    told = build("m1,1,2\nm2,3,4\nm3,5,6\n", "m2,m3\n", id_column="m1")
    assert told.num_nodes == 2


def test_cells_far_too_long_are_refused_or_read(build: Any) -> None:
    long = "7" * 5000
    with pytest.raises(GsscError, match="the id in column 'id' has 5,000 characters: use at most 1,000"):
        build(f"id,x\n{long},1\nb,2\n", f"u,v\n{long},b\n")
    assert build(f"id,x,label\na,1,{long}\nb,2,1\n", "u,v\na,b\n").num_classes == 2


def test_whole_numbers_written_as_decimals_are_whole(build: Any) -> None:
    graph = build("id,x,label\n0,1,0.0\n1,2,1.0\n2,3,-1.0\n", "source,target\n0.0,1.0\n1.0,2.0\n")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.class_names == ("0", "1")


def test_a_column_of_lists_is_refused(build: Any, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    parquet.write_table(pyarrow.table({"id": ["a", "b"], "v": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "n.parquet")
    with pytest.raises(GsscError, match=r"row 1, column 'v': \[1.0, 2.0\] is not a number"):
        import_tables(tmp_path / "n.parquet", tmp_path / "e.csv")


def test_parquet_that_cannot_be_used(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    nodes = tmp_path / "n.parquet"
    parquet.write_table(pyarrow.table({"id": [b"a", b"\xff"], "v": [1.0, 2.0]}), nodes)
    with pytest.raises(GsscError, match=r"n\.parquet row 2, column 'id' is b'.xff', which is not UTF-8"):
        import_tables(nodes, tmp_path / "e.csv")
    text = pyarrow.array([b"a", b"\xff"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"id": text, "v": [1.0, 2.0]}), nodes)
    with pytest.raises(GsscError, match="cannot be read as Parquet"):
        import_tables(nodes, tmp_path / "e.csv")
    twice = pyarrow.table([pyarrow.array(["a", "b"]), pyarrow.array([1, 2]), pyarrow.array([3, 4])], ["id", "v", "v"])
    parquet.write_table(twice, nodes)
    with pytest.raises(GsscError, match="two columns called 'v'"):
        import_tables(nodes, tmp_path / "e.csv")


def test_default_split_uses_every_label(build: Any) -> None:
    rows = "".join(f"{i},{i * 0.5},{'ab'[i % 2]}\n" for i in range(50))
    graph = build("id,x,y\n" + rows, "u,v\n0,1\n")
    assert (len(graph.train), len(graph.val), len(graph.test)) == (30, 10, 10)
    assert graph.split == "ratio 60/20/20 seed=0"


def test_weights_of_edges(build: Any) -> None:
    nodes = "id,x\na,1\nb,2\nc,3\n"
    graph = build(nodes, "source,target,Weight\na,b,0.5\nc,b,2\nb,a,3\n")
    assert graph.edge_weight.tolist() == [3, 2]
    assert build(nodes, "u,v,km\na,b,0.5\nc,b,2\n", weight_column="km").edge_weight.tolist() == [0.5, 2]
    assert build(nodes, "u,v,km\na,b,0.5\nc,b,2\n").edge_weight is None
    assert build(nodes, "u,v,weight\na,b,x\n", weight_column="none").edge_weight is None
    with pytest.raises(GsscError, match=r"edges\.csv:2, column 'weight': 'x' is not a number.*--weight none"):
        build(nodes, "u,v,weight\na,b,x\n")
    with pytest.raises(GsscError, match=r"edges\.csv:3, column 'weight' is 0: weights must be above 0"):
        build(nodes, "u,v,weight\na,b,1\nb,c,0\n")


def test_without_edges_rows_are_joined_to_their_neighbours(tmp_path: Path) -> None:
    # On one scale rows 0 and 1, 2 and 3 are alike; in raw numbers the second column would join 0 and 2, 1 and 3.
    rows = "name,x,y,label\np,0,1000,u\nq,0.1,3000,-1\nr,5,1100,v\ns,5.1,3100,\n"
    (tmp_path / "n.csv").write_text(rows)
    graph = import_tables(tmp_path / "n.csv", n_neighbors=1, split="ratio:100/0/0")
    scaled = np.array([[0, 1000], [0.1, 3000], [5, 1100], [5.1, 3100]])
    scaled = (scaled - scaled.mean(axis=0)) / scaled.std(axis=0)
    np.testing.assert_array_equal(graph.edges, nearest_neighbour_edges(scaled, 1))
    assert (graph.node_ids.tolist(), graph.feature_names) == (list("pqrs"), ("x", "y"))
    assert graph.labels.tolist() == [0, -1, 1, -1]
    assert import_tables(tmp_path / "n.csv").num_edges == 6  # eight neighbours asked for, three there
    with pytest.raises(GsscError, match="n_neighbors is 0"):
        import_tables(tmp_path / "n.csv", n_neighbors=0)
    with pytest.raises(GsscError, match="columns of an edge table are given, but no edge table"):
        import_tables(tmp_path / "n.csv", weight_column="w")
    (tmp_path / "one.csv").write_text("id,x\na,1\n")
    with pytest.raises(GsscError, match="one row has no neighbours"):
        import_tables(tmp_path / "one.csv")


@pytest.mark.parametrize(
    ("header", "ids", "features"),
    [
        ("p,q,label", None, ("p", "q")),
        ("label,p,q", None, ("p", "q")),
        ("p,q,id", [3, 6], ("p", "q")),
    ],
)
def test_without_edges_a_first_column_of_numbers_is_a_feature(
    tmp_path: Path, header: str, ids: Any, features: tuple[str, ...]
) -> None:
    (tmp_path / "n.csv").write_text(header + "\n1,2,3\n4,5,6\n")
    graph = import_tables(tmp_path / "n.csv")
    assert graph.feature_names == features
    assert (graph.node_ids if ids is None else graph.node_ids.tolist()) == ids


def test_neighbours_are_those_of_the_classifier(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = np.round(rng.standard_normal((40, 3)) * [1, 100, 0.01], 6)
    labels = np.repeat(["a", "b"], 20)
    lines = [",".join(map(str, [*row, label])) for row, label in zip(table.tolist(), labels, strict=True)]
    (tmp_path / "n.csv").write_text("p,q,r,label\n" + "\n".join(lines))
    quick = {"teachers": {"trees": False, "rounds": 1}, "model": {"hidden": 4}}
    tiny = GSSCClassifier(config=quick).fit(table, labels)
    np.testing.assert_array_equal(import_tables(tmp_path / "n.csv").edges, tiny.edge_index_)


def test_features_from_the_structure(build: Any) -> None:
    nodes = "id,label,remark\na,u,hello\nb,v,\nc,,\n"
    graph = build(nodes, "u,v\na,b\nb,c\n", features_from="structure")
    assert graph.feature_names[:2] == ("log degree", "neighbours' log degree")
    assert graph.num_nodes == 3
    with pytest.raises(GsscError, match="'remark': 'hello' is not a number"):
        build(nodes, "u,v\na,b\nb,c\n")
    with pytest.raises(GsscError, match="no feature column .*--features-from structure"):
        build("id,label\na,u\nb,v\n", "u,v\na,b\n")
    with pytest.raises(GsscError, match="need edges"):
        import_tables("n.csv", features_from="structure")
    with pytest.raises(GsscError, match="features_from is 'edges': use columns or structure"):
        build(features_from="edges")


def test_a_table_with_another_separator_is_explained(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id|x|label\na|1|u\n")
    with pytest.raises(
        GsscError, match=r"one column, 'id\|x\|label': separate columns by a comma, a semicolon or a tab"
    ):
        import_tables(tmp_path / "n.csv")
    (tmp_path / "n.xlsx").write_bytes(b"PK")
    with pytest.raises(GsscError, match=r"use .csv, .tsv or .parquet; save the sheet as CSV"):
        import_tables(tmp_path / "n.xlsx")


def test_decimal_commas(build: Any) -> None:
    nodes = "id;x;y;label\na;1,5;-,25;u\nb;2;3,e2;v\nc;,5;1,25E-1;u, v\n"
    graph = build(nodes, "u;v;weight\na;b;0,5\nb;c;1\n", decimal=",")
    assert graph.features.tolist() == [[1.5, -0.25], [2, 300], [0.5, 0.125]]
    assert graph.edge_weight.tolist() == [0.5, 1]
    assert graph.class_names == ("u", "u, v", "v")
    assert build("0;1,5\n1;2,5\n", "0\t1\n", decimal=",").features.tolist() == [[1.5], [2.5]]
    with pytest.raises(GsscError, match=r"'1,5' is not a number: write decimals with a point, or read .*--decimal ,"):
        build(nodes)
    with pytest.raises(GsscError, match="decimal is ';': use a point or a comma"):
        build(nodes, decimal=";")


def test_compressed_and_parquet_agree_with_csv(build: Any, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    plain = build()
    with gzip.open(tmp_path / "nodes.csv.gz", "wt") as file:
        file.write("\ufeff" + NODES)
    columns = {"source": ["a", "b", "d"], "target": ["b", "c", "c"]}
    parquet.write_table(arrow.table(columns), tmp_path / "edges.parquet")
    graph = import_tables(tmp_path / "nodes.csv.gz", tmp_path / "edges.parquet")
    np.testing.assert_array_equal(graph.features, plain.features)
    np.testing.assert_array_equal(graph.edges, plain.edges)
    assert graph.class_names == plain.class_names

    numbered = {"id": [1, 2, 3], "x": [0.5, 1.0, 2.0], "flag": [True, False, True], "y": [0.0, None, 1.0]}
    parquet.write_table(arrow.table(numbered), tmp_path / "nodes.parquet")
    (tmp_path / "edges.tsv").write_text("src\tdst\n1\t2\n2\t3\n")
    graph = import_tables(tmp_path / "nodes.parquet", tmp_path / "edges.tsv", split="per-class:1")
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.features.tolist() == [[0.5, 1], [1, 0], [2, 1]]
    numbered["x"] = [0.5, None, 1.0]
    parquet.write_table(arrow.table(numbered), tmp_path / "nodes.parquet")
    with pytest.raises(GsscError, match=r"nodes\.parquet row 2, column 'x' is empty"):
        import_tables(tmp_path / "nodes.parquet", tmp_path / "edges.tsv")
    (tmp_path / "nodes.parquet").write_bytes((tmp_path / "nodes.parquet").read_bytes()[:-30])
    with pytest.raises(GsscError, match="cannot be read as Parquet"):
        import_tables(tmp_path / "nodes.parquet", tmp_path / "edges.tsv")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (NODES.replace("2,dog", "two,dog"), EDGES, r"nodes\.csv:3, column 'age': 'two' is not a number"),
        (NODES.replace("3,,2.5", ",,2.5"), EDGES, r"nodes\.csv:4, column 'age' is empty"),
        (NODES.replace("3,,2.5", "nan,,2.5"), EDGES, r"nodes\.csv:4, column 'age' is nan"),
        (NODES.replace("-1e3", "1e39"), EDGES, r"nodes\.csv:5, column 'height': 1e\+39 is too large"),
        (
            NODES,
            EDGES.replace("b,c,2", "b,,2"),
            r"edges\.csv:3: there is no id in column 'target': fill it in or drop",
        ),
        (NODES, EDGES.replace("b,c,2", "b,zoe,2"), r"edges\.csv:3: the edge names node 'zoe'"),
        (NODES.replace("\nd,", "\na,"), EDGES, r"nodes\.csv:5: node id 'a' was used before at .*nodes\.csv:2"),
        (NODES.replace("\nd,", "\n ,"), EDGES, r"nodes\.csv:5: there is no id"),
        (NODES + "e,1", EDGES, r"nodes\.csv:6: 2 columns where the first line has 5"),
        ("", EDGES, r"nodes\.csv is empty"),
        ("id,x\n", EDGES, r"nodes\.csv has no rows"),
        (NODES, "source,target\n", r"edges\.csv has no rows"),
        (NODES, "source\na\n", "only one column"),
        ("id,x,x\na,1,2\n", EDGES, r"nodes\.csv:1: column 'x' appears twice"),
        ("id,label\na,1\nb,2\n", "a,b\na,b\n", "has no feature column"),
        (NODES.replace("1.5,val", "1.5,vall"), EDGES, r"nodes\.csv:3, column 'split': 'vall' is not train"),
        ('id,x\n"a\nb",1\nc,red\n', EDGES, r"nodes\.csv:4, column 'x': 'red'"),
        ('id,x\n"a,1\n', EDGES, r"nodes\.csv:2: not a text table"),
        ("id;x\na;2,5\n", EDGES, r"nodes\.csv:2, column 'x': '2,5' is not a number: write decimals with a point"),
    ],
)
def test_errors_say_where(build: Any, nodes: str, edges: str, message: str) -> None:
    with pytest.raises(GsscError, match=message) as caught:
        build(nodes, edges)
    assert "\n" not in str(caught.value)


def test_errors_about_files_and_columns(build: Any, tmp_path: Path) -> None:
    with pytest.raises(GsscError, match="no column 'labl': did you mean 'label'"):
        build(label_column="labl")
    with pytest.raises(GsscError, match="both ends of an edge are read from column 'target'"):
        build(source_column="target")
    edges = tmp_path / "edges.csv"
    with pytest.raises(GsscError, match="does not exist"):
        import_tables(tmp_path / "absent.csv", edges)
    with pytest.raises(GsscError, match="is a folder: give the table in it"):
        import_tables(tmp_path, edges)
    (tmp_path / "nodes.xls").write_text("")
    with pytest.raises(GsscError, match="unknown file extension '.xls'"):
        import_tables(tmp_path / "nodes.xls", edges)
    (tmp_path / "latin.csv").write_bytes("id,x\nä,1\n".encode("latin1"))
    with pytest.raises(GsscError, match="not UTF-8"):
        import_tables(tmp_path / "latin.csv", edges)
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(NODES.encode())[:-12])
    with pytest.raises(GsscError, match="cannot be read"):
        import_tables(tmp_path / "cut.csv.gz", edges)


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), ids=st.lists(names, min_size=2, max_size=8, unique=True))
def test_any_table_comes_back(data: st.DataObject, ids: list[str], tmp_path: Path) -> None:
    import csv

    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = [data.draw(st.lists(number, min_size=2, max_size=2)) for _ in ids]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=12))
    pairs.append((ids[0], ids[1]))
    with (tmp_path / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "p", "q"], *([name, *row] for name, row in zip(ids, rows, strict=True))])
    with (tmp_path / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["source", "target"], *pairs])
    graph = import_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")
    np.testing.assert_array_equal(graph.features, np.array(rows, dtype=np.float32))
    expected = {tuple(sorted((ids.index(u), ids.index(v)))) for u, v in pairs if u != v}
    assert set(map(tuple, graph.edges.T.tolist())) == expected
    assert graph.node_ids is not None
    assert [str(name) for name in graph.node_ids.tolist()] == ids


def test_a_column_of_names_may_be_the_labels(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,a,b,group\nn1,1,2,x\nn2,2,3,y\nn3,3,4,x\n")
    with pytest.raises(
        GsscError, match=r"'group': 'x' is not a number.*--ignore\); if a column holds the classes.*--label"
    ):
        import_tables(tmp_path / "nodes.csv")
    assert import_tables(tmp_path / "nodes.csv", label_column="group", n_neighbors=1).class_names == ("x", "y")


def test_one_error_names_every_column_that_needs_work(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,age,weight,since,town,kind\na,1,,2015-01-01,north,x\nb,,2.5,2016-02-02,south,y\nc,,3,,east,\n")
    expected = (
        r"nodes\.csv:3, column 'age' is empty \(2 empty cells in the column\): fill it in, or leave out the row or the "
        r"column \(ignore_columns, --ignore\); also: 'weight' has 1 empty cell, 'since' is not a number "
        r"\('2015-01-01'\), 'town' is not a number \('north'\)$"
    )
    with pytest.raises(GsscError, match=expected):
        import_tables(nodes, label_column="kind")


def test_one_column_cannot_hold_ids_and_labels(build: Any) -> None:
    with pytest.raises(GsscError, match=r"column 'kind' cannot hold both the ids and the labels"):
        build("id,x,kind\na,1,cat\nb,2,dog\n", "source,target\na,b\n", id_column="kind", label_column="kind")

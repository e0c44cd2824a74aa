from __future__ import annotations

import csv

import pyarrow.parquet
import pytest

from gssc.errors import GsscError
from gssc.evaluate.export import WRITERS, export_runs, markdown
from gssc.evaluate.store import COLUMNS
from gssc.evaluate.summary import result_table
from gssc.files import check_output


def rows(scores, **changes):
    """Runs from {(model, sparsifier, dataset): accuracies}."""
    plain = dict.fromkeys(COLUMNS) | {"status": "done", "setting": "transductive", "finished_at": "1"}
    plain |= {f"{about}_noise": "none" for about in ("label", "structure", "feature")} | changes
    return [
        plain
        | {"key": f"{names}{seed}", "model": names[0], "sparsifier": names[1], "dataset": names[2], "seed": seed}
        | {"test_score": score}
        for names, accuracies in scores.items()
        for seed, score in enumerate(accuracies)
    ]


SCORES = {
    ("sage", "none", "cora"): [0.80, 0.81, 0.79],
    ("gcn", "none", "cora"): [0.70, 0.712, 0.69],
    ("gcn", "drop_edge", "cora"): [0.71, 0.72, 0.701],
}


def test_means_and_order_of_the_registry():
    table = result_table(rows(SCORES))
    texts = dict(table.texts(bold=("<", ">"), second=("[", "]")))
    assert list(texts) == ["gcn", "gcn+drop_edge", "sage"]
    assert texts["sage"] == ["<80.00 ± 0.82>"]  # ahead by 9 points and more on every seed
    assert texts["gcn"] == ["70.07 ± 0.90"]


def test_of_several_runs_of_a_cell_the_last_counts_and_short_ones_stand_apart():
    name = ("gcn", "none", "cora")
    new, old = rows({name: [0.8]}, finished_at="2026-02"), rows({name: [0.7]}, finished_at="2026-01")
    short = rows({name: [0.3]}, finished_at="2026-03", max_epochs=3)
    texts = dict(result_table([*new, *old, *short]).texts(bold=("", ""), second=("", "")))
    assert texts == {"gcn": ["80.00", "30.00"]}
    assert "at most 3 epochs" in markdown(result_table(short))
    assert "at most 1 epoch " in markdown(result_table(rows({name: [0.3]}, finished_at="2026-03", max_epochs=1)))


def test_no_mark_where_the_difference_may_be_chance():
    close = {("gcn", "none", "cora"): [0.80, 0.70, 0.75], ("sage", "none", "cora"): [0.71, 0.79, 0.76]}
    texts = dict(result_table(rows(close)).texts(bold=("<", ">"), second=("[", "]")))
    assert texts == {"gcn": ["75.00 ± 4.08"], "sage": ["75.33 ± 3.30"]}


def test_paired_differences_and_their_interval():
    table = result_table(rows(SCORES), against="gcn")
    (text,) = dict(table.texts(bold=("", ""), second=("", "")))["gcn+drop_edge"]
    # differences 1.0, 0.8, 1.1: mean 0.9667, s = 0.1528, t(2) = 4.3027, half-width 0.3795
    assert text.endswith("(+0.97; +0.59 to +1.35)")
    assert "paired difference to gcn" in table.caption


def test_an_unknown_method_to_compare_with():
    with pytest.raises(GsscError, match="did you mean 'gcn'"):
        result_table(rows(SCORES), against="gcnn")


def test_noise_and_setting_make_columns_of_their_own():
    table = result_table(
        rows({("gcn", "none", "cora"): [0.8]})
        + rows({("gcn", "none", "cora"): [0.6]}, label_noise="symmetric:0.4", setting="inductive")
    )
    assert table.columns == ["cora", "cora, inductive, label symmetric:0.4"]


def test_failed_runs_have_no_place_in_a_mean():
    bad = rows({("gcn", "none", "cora"): [None]}, status="failed", error="oops")
    table = result_table(rows({("gcn", "none", "cora"): [0.5, 0.7]}) + bad)
    assert dict(table.texts(("", ""), ("", "")))["gcn"] == ["60.00 ± 10.00"]


def test_ranks_over_several_datasets():
    two = {("gcn", "none", d): [0.8, 0.81] for d in ("cora", "citeseer")}
    two |= {("sage", "none", "cora"): [0.7, 0.72], ("sage", "none", "citeseer"): [0.9, 0.92]}
    table = result_table(rows(two))
    assert table.headings[-1] == "average rank"
    assert {method: cells[-1] for method, cells in table.texts(("", ""), ("", ""))} == {"gcn": "1.5", "sage": "1.5"}


@pytest.mark.parametrize("ending", ["parquet", "csv", "md", "tex"])
def test_exports(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    made = rows(SCORES)
    export_runs(check_output(path, WRITERS), made)
    if ending == "parquet":
        assert pyarrow.parquet.read_table(path).to_pylist() == [{name: row[name] for name in COLUMNS} for row in made]
    elif ending == "csv":
        read = list(csv.DictReader(path.read_text().splitlines()))
        assert [(row["model"], float(row["test_score"])) for row in read] == [
            (row["model"], row["test_score"]) for row in made
        ]
    elif ending == "md":
        assert "| sage | **80.00 ± 0.82** |" in path.read_text()
        assert "paired t-test" in path.read_text()
    else:
        text = path.read_text()
        assert r"gcn+drop\_edge & \underline{71.03 $\pm$ 0.78} \\" in text
        assert text.count("{") == text.count("}")
    with pytest.raises(GsscError, match="--overwrite"):
        check_output(path, WRITERS)


def test_an_unknown_ending(tmp_path):
    with pytest.raises(GsscError, match=r"\.parquet, \.csv, \.md, \.tex"):
        check_output(tmp_path / "out.xlsx", WRITERS)


def test_markdown_of_one_method_names_no_test():
    text = markdown(result_table(rows({("gcn", "none", "cora"): [0.8, 0.9]})))
    assert "t-test" not in text

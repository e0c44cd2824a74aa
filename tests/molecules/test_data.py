"""From SMILES and tables to arrays: fields, bad input, cache, splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")

from gssc.data import load_dataset
from gssc.data.molecule_tables import read_smiles_table
from gssc.errors import GsscError
from gssc.molecules import load_molecules, read_molecules
from gssc.molecules.featurize import cache_path, featurize
from gssc.molecules.fields import ATOM_FIELDS
from gssc.molecules.load import properties
from gssc.molecules.smiles import InvalidSmiles, read_molecule
from gssc.molecules.splits import scaffold_split, split_molecules


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))


def shown(codes: np.ndarray) -> dict[str, object]:
    return {field.name: (*field.values, "other")[code] for field, code in zip(ATOM_FIELDS, codes, strict=True)}


def test_fields_of_pyridine_by_hand() -> None:
    pyridine = read_molecule("c1ccncc1")
    nitrogen = shown(pyridine.atoms[3])
    assert nitrogen == {
        "element": 7,
        "chirality": "CHI_UNSPECIFIED",
        "degree": 2,
        "charge": 0,
        "hydrogens": 0,
        "radicals": 0,
        "hybridization": "SP2",
        "aromatic": True,
        "in_ring": True,
    }
    assert pyridine.bonds.shape == (2, 6)
    assert pyridine.bond_fields.tolist() == [[3, 0, 1]] * 6  # aromatic, no stereo, conjugated


def test_a_salt_is_one_molecule_of_several_parts_and_one_atom_is_enough() -> None:
    salt = read_molecule("[Na+].CC([O-])=O")
    assert (len(salt.atoms), salt.bonds.shape[1]) == (5, 3)
    assert shown(salt.atoms[0])["charge"] == 1
    methane = read_molecule("C")
    assert (methane.atoms.shape, methane.bonds.shape, methane.bond_fields.shape) == ((1, 9), (2, 0), (0, 3))


@pytest.mark.parametrize(
    ("text", "reason"), [("", "is empty"), ("C1CC", "not a SMILES"), ("C(C)(C)(C)(C)C", "valence")]
)
def test_invalid_smiles_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSmiles, match=reason):
        read_molecule(text)


def test_invalid_rows_are_skipped_and_listed_or_refused() -> None:
    texts, targets = ["CCO", "nonsense", "c1ccccc1", ""], np.array([[0], [1], [1], [0]])
    found = featurize(texts, targets, ["y"])
    assert found.smiles.tolist() == ["CCO", "c1ccccc1"]
    assert found.targets.ravel().tolist() == [0, 1]
    assert [each.row for each in found.skipped] == [2, 4]
    assert found.rows.tolist() == [1, 3]
    with pytest.raises(GsscError, match=r"row 2: .*2 of 4 rows"):
        featurize(texts, targets, ["y"], invalid="refuse")
    with pytest.raises(GsscError, match="none of 1 rows holds a molecule: row 1"):
        featurize(["?"])


def test_arrays_of_two_molecules_and_taking_them_apart() -> None:
    found = featurize(["CCO", "C", "C=O"])
    assert found.atom_starts.tolist() == [0, 3, 4, 6]
    assert found.bonds.tolist() == [[0, 1, 4], [1, 2, 5]]
    assert found.molecule_of_atom.tolist() == [0, 0, 0, 1, 2, 2]
    turned = found.take([2, 0])
    assert turned.bonds.tolist() == [[0, 2, 3], [1, 3, 4]]
    assert (turned.atoms[:2] == found.atoms[4:]).all()
    assert turned.bond_fields[:, 0].tolist() == [1, 0, 0]  # the double bond comes first now


def test_the_cache_gives_the_same_arrays_and_survives_damage() -> None:
    texts = ["CCO", "bad", "c1ccccc1C"]
    first = featurize(texts, cache=True)
    again = featurize(texts, cache=True)
    assert (first.atoms == again.atoms).all()
    assert first.skipped == again.skipped
    cache_path(texts).write_bytes(b"half a file")
    assert (featurize(texts, cache=True).bonds == first.bonds).all()


def test_several_processes_give_what_one_gives() -> None:
    texts = ["C" * (1 + index % 7) for index in range(2001)]
    one, two = featurize(texts), featurize(texts, jobs=2)
    assert (one.atoms == two.atoms).all()
    assert (one.bonds == two.bonds).all()


def test_scaffold_split_keeps_groups_whole_and_fills_from_the_largest() -> None:
    scaffolds = np.array([0] * 5 + [1] * 2 + [2, 3, 4])
    train, val, test = scaffold_split(scaffolds)
    assert train.tolist() == [0, 1, 2, 3, 4, 5, 6, 9]  # 5 + 2, and the later of three single ones
    assert (val.tolist(), test.tolist()) == ([8], [7])
    (_, drawn, _), name = split_molecules("random:60/20/20", scaffolds, seed=3)
    assert (len(drawn), name) == (2, "random:60/20/20 seed=3")
    for wrong in ("scafold", "random:50/20/20"):
        with pytest.raises(GsscError):
            split_molecules(wrong, scaffolds)


def test_your_own_table(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    lines = "".join(f"m{n},{'C' * (n % 9 + 1)}O,{n % 2},{n * 0.5 if n % 3 else ''}\n" for n in range(20))
    table.write_text("name,structure,active,potency\n" + lines)
    both = read_molecules(table, smiles_column="structure", targets=["active", "potency"], split="random")
    assert both.num_targets == 2
    assert np.isnan(both.targets[:, 1]).sum() == 7
    assert both.is_regression
    assert not read_molecules(table, smiles_column="structure", targets=["active"], split="random").is_regression
    with pytest.raises(GsscError, match="no column named smiles"):
        read_molecules(table)
    with pytest.raises(GsscError, match="did you mean 'structure'"):
        read_molecules(table, smiles_column="structur")
    with pytest.raises(GsscError, match=r"line 2: 'm0' in column 'name' is not a number"):
        read_molecules(table, smiles_column="structure")
    with pytest.raises(GsscError, match="cannot be a target"):
        read_molecules(table, smiles_column="structure", targets=["structure"])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("smiles\nC\n\nO\n\n", ["C", "", "O"]),  # of one column: an empty line is an empty cell, but for the end
        ('smiles\nC\n""\n', ["C", ""]),
        ("name,smiles\n,\n\na,C\nb,\n", ["", "C", ""]),
    ],
)
def test_no_row_of_a_table_is_lost(tmp_path: Path, text: str, rows: list[str]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    assert read_smiles_table(path, targets=[]).smiles == rows


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("smiles,a,a,smiles2\nC,1,0,C\n")
    assert read_smiles_table(path, targets=[]).smiles == ["C"]
    with pytest.raises(GsscError, match="2 columns named 'a': rename all but one"):
        read_smiles_table(path, targets=["a"])


def test_node_and_graph_level_sets_are_not_confused() -> None:
    with pytest.raises(GsscError, match="load_molecules"):
        load_dataset("bbbp")
    with pytest.raises(GsscError, match="one graph"):
        load_molecules("cora")


def test_computed_properties() -> None:
    found = properties(featurize(["CCO", "CCCCCC"]), "logp", "tpsa")
    assert found.targets[:, 1].tolist() == pytest.approx([20.23, 0.0], abs=0.01)
    assert found.targets[0, 0] < found.targets[1, 0]
    with pytest.raises(GsscError, match="logp or tpsa"):
        properties(found, "colour")

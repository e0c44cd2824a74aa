"""Pre-training: no test molecule in the pool, views that stay molecules, checkpoints that resume, losses that fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from gssc.errors import GsscError
from gssc.molecules.batches import collate
from gssc.molecules.featurize import featurize
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet, concatenate
from gssc.molecules.pretrain import pool as pools
from gssc.molecules.pretrain.finetune import PretrainSettings, one_pass, pretrained
from gssc.molecules.pretrain.g_motif import functional_groups
from gssc.molecules.pretrain.graph_cl import GraphCL
from gssc.molecules.pretrain.graph_mvp import conformers
from gssc.molecules.pretrain.pool import canonical, pretraining_pool
from gssc.molecules.pretrain.pretext import matching_loss
from gssc.molecules.pretrain.views import AUGMENTATIONS, neighbourhood, random_view, without_atoms
from gssc.molecules.registry import MODELS, molecule_model

CHAINS = [f"{'C' * (1 + n % 6)}{('O', 'N', 'S', 'F')[n % 4]}" for n in range(24)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "cache"))


def small() -> MoleculeSet:
    return featurize(CHAINS)


def tensors(molecules: MoleculeSet) -> GraphTensors:
    return GraphTensors.of(molecules, collate(molecules, np.arange(len(molecules))))


def test_no_spelling_of_a_test_molecule_is_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    target = featurize(["CCO", "CCN", "c1ccccc1", "CCCC"], name="mine").with_(train=[1], val=[3], test=[0, 2])
    other = featurize(["OCC", "C1=CC=CC=C1", "CCS", "C(C)N"])
    monkeypatch.setattr(pools, "published", lambda name: other)
    pool = pretraining_pool(target, "bbbp", limit=100)
    assert sorted(pool.smiles.tolist()) == ["C(C)N", "CCCC", "CCN", "CCS"]
    hidden = {canonical(text) for text in target.smiles[target.test]}
    assert not hidden & {canonical(text) for text in pool.smiles}
    assert len(pretraining_pool(target, "bbbp", limit=5)) <= 5
    with pytest.raises(GsscError, match="one graph"):
        pretraining_pool(target, "cora", limit=3)


def test_concatenated_sets_keep_their_molecules_apart() -> None:
    first, second = featurize(["CO", "C"]), featurize(["CCS"])
    union = concatenate([first, second])
    assert union.atom_starts.tolist() == [0, 2, 3, 6]
    assert union.bonds.tolist() == [[0, 3, 4], [1, 4, 5]]
    assert union.bond_starts.tolist() == [0, 1, 1, 3]
    assert (union.take([2]).atoms == second.atoms).all()


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_views_leave_every_molecule_an_atom_and_bonds_inside_molecules(kind: str) -> None:
    graph = tensors(small())
    for seed in range(5):
        view, hidden = random_view(graph, 0.5, np.random.default_rng(seed), kind)
        assert torch.bincount(view.owner, minlength=24).min() >= 1
        assert (view.owner[view.edges[0]] == view.owner[view.edges[1]]).all()
        assert view.bond_fields.shape[0] == view.edges.shape[1]
        assert hidden is None or len(hidden) == len(view.atoms)


def test_dropping_an_atom_by_hand() -> None:
    graph = tensors(featurize(["CCO", "N"]))
    view = without_atoms(graph, np.array([True, True, False, False]))
    assert view.atoms[:, 0].tolist() == [5, 5, 6]  # the oxygen is gone, the nitrogen is its molecule's last atom
    assert view.edges.tolist() == [[0, 1], [1, 0]]
    reached = neighbourhood(tensors(featurize(["CCCCCCCCC"])), np.random.default_rng(0), steps=1)
    assert reached.sum() in (2, 3)


def test_matching_loss_by_hand() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    expected = -np.log(np.exp(1) / (np.exp(1) + 1))  # similarities 1 on the diagonal, 0 beside it
    assert matching_loss(rows, rows, temperature=1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if entry.module.startswith("pretrain.")])
def test_the_loss_of_a_pretext_task_falls(name: str) -> None:
    torch.manual_seed(0)
    molecules = small()
    task = molecule_model(name).training_class().pretext(GraphEncoder("gcn", 16, 2, 0.0), molecules)
    optimizer = torch.optim.Adam(task.parameters(), lr=0.01)
    before = {key: value.clone() for key, value in task.encoder.named_parameters()}
    index = task.usable(np.arange(len(molecules)))
    rng = np.random.default_rng(0)
    losses = [one_pass(task, optimizer, molecules, index, 24, rng) for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    moved = [key for key, value in task.encoder.named_parameters() if not torch.equal(value, before[key])]
    assert any("convolutions" in key for key in moved)


def test_pretraining_resumes_where_it_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    molecules, sizes = small(), {"width": 8, "layers": 2, "pretrain_batch": 8}

    def weights(settings: PretrainSettings) -> dict[str, Any]:
        encoder = GraphEncoder("gcn", 8, 2)
        pretrained(GraphCL, encoder, molecules, settings)
        return encoder.state_dict()

    whole = weights(PretrainSettings(pretrain_epochs=3, **sizes))  # type: ignore[arg-type]
    monkeypatch.setenv("GSSC_CACHE", str(tmp_path / "another"))
    settings = PretrainSettings(pretrain_epochs=3, **sizes)  # type: ignore[arg-type]
    passes = []

    def interrupted(*given: Any) -> float:
        passes.append(1)
        if len(passes) == 3:
            raise KeyboardInterrupt
        return one_pass(*given)

    monkeypatch.setattr("gssc.molecules.pretrain.finetune.one_pass", interrupted)
    with pytest.raises(KeyboardInterrupt):
        weights(settings)
    resumed = weights(settings)
    assert len(passes) == 4  # two, the interruption, and the one that was missing
    assert all(torch.equal(resumed[key], whole[key]) for key in whole)
    monkeypatch.setattr(GraphCL, "__init__", lambda *given: pytest.fail("the task is not needed any more"))
    loaded = weights(settings)
    assert all(torch.equal(loaded[key], whole[key]) for key in whole)


def test_functional_groups_and_conformers() -> None:
    found = featurize(["CC(=O)O", "CCC"])
    groups = functional_groups(found)
    assert groups.shape == (2, 85)
    assert groups[0].sum() > 0
    assert groups[1].sum() == 0
    places = conformers(found, 2)
    assert places[0].shape == (4, 3)
    assert 1.3 < np.linalg.norm(places[1][0] - places[1][1]) < 1.7  # a C-C bond in Angstrom

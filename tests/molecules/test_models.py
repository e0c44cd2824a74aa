"""Every graph-level model trains on a small set, resumes to the same weights, and learns what can be learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")
pytest.importorskip("sklearn")

from gssc.errors import GsscError
from gssc.features import SparseRows
from gssc.molecules.atom_rows import AtomRows, RowFormat, drop_environments
from gssc.molecules.batches import collate
from gssc.molecules.environments import environments
from gssc.molecules.featurize import featurize
from gssc.molecules.fields import ATOM_WIDTH
from gssc.molecules.load import properties
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.objective import GraphObjective, average_precision
from gssc.molecules.pretrain.pool import canonical
from gssc.molecules.registry import MODELS, molecule_model
from gssc.train.checkpoint import load_checkpoint, save_checkpoint


def small_set(count: int = 60) -> MoleculeSet:
    """Chains with a nitrogen (active) or an oxygen (inactive), and a second target that is mostly unknown."""
    rng = np.random.default_rng(0)
    texts = [
        "C" * rng.integers(1, 7) + ("N", "O")[n % 2] + "C" * rng.integers(0, 4) + "Cl" * (n % 3 == 0)
        for n in range(count)
    ]
    targets = np.stack(
        [1.0 - np.arange(count) % 2, np.where(np.arange(count) % 4, np.nan, np.arange(count) % 8 // 4)], 1
    )
    parts = np.split(rng.permutation(count), [count // 2, 3 * count // 4])
    return featurize(texts, targets, ["nitrogen", "other"]).with_(train=parts[0], val=parts[1], test=parts[2])


def quick(name: str, epochs: int = 4, **changes: Any) -> Any:
    made = molecule_model(name).settings(**changes)
    made.train.epochs, made.train.batch_size, made.train.lr, made.train.average = epochs, 16, 0.01, 0.5
    if hasattr(made, "warmup"):
        made.warmup = 1
    if hasattr(made, "trees"):
        made.trees, made.columns = 5, 64
    if hasattr(made, "fingerprint_columns"):
        made.fingerprint_columns, made.pool, made.columns, made.trees = 64, "", 1024, 40
    if hasattr(made, "pretrain_epochs"):
        made.pretrain_epochs, made.width, made.layers, made.pool = 1, 16, 2, ""
    return made


def trained(name: str, molecules: MoleculeSet, **changes: Any) -> Any:
    made = molecule_model(name).training_class()(molecules, quick(name, **changes))
    for _ in made.epochs():
        pass
    return made


@pytest.fixture(scope="module")
def molecules() -> MoleculeSet:
    return small_set()


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSSC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("name", MODELS)
def test_trains_and_scores_every_molecule(name: str, molecules: MoleculeSet) -> None:
    outcome = trained(name, molecules).outcome()
    assert outcome.scores.shape == (60, 2)
    assert np.isfinite(outcome.scores).all()
    assert 0 <= outcome.val_score <= 1
    assert 0 < outcome.edges_kept <= outcome.edges_total == molecules.bonds.shape[1]


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_training_ends_with_the_same_scores(name: str, molecules: MoleculeSet, tmp_path: Path) -> None:
    training = molecule_model(name).training_class()
    whole = trained(name, molecules).outcome().scores
    begun = training(molecules, quick(name))
    next(iter(begun.epochs()))
    save_checkpoint(tmp_path / "state", begun.state_dict())
    resumed = training(molecules, quick(name))
    resumed.load_state_dict(load_checkpoint(tmp_path / "state"))
    for _ in resumed.epochs():
        pass
    np.testing.assert_array_equal(resumed.outcome().scores, whole)


@pytest.mark.parametrize("name", ["gin", "fingerprint_forest"])
def test_progress_counts_the_batches_of_an_epoch(
    name: str, molecules: MoleculeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = molecule_model(name).training_class()(molecules, quick(name, epochs=2))
    seen: list[float] = []
    follow = training.averaged.follow
    monkeypatch.setattr(training.averaged, "follow", lambda: follow() or seen.append(training.epochs_done))
    ends = []
    for _ in training.epochs():
        seen.append(training.epochs_done)
        ends.append(training.epochs_done)
    assert ends == [1, 2]  # the forest has one epoch per target
    assert training.total_epochs == 2
    assert seen == sorted(seen)
    assert len(set(seen)) > 2 or name == "fingerprint_forest"


def test_gssc_learns_from_atoms_and_needs_no_bond_to_predict(molecules: MoleculeSet) -> None:
    first = molecules.with_(targets=molecules.targets[:, :1], target_names=("nitrogen",))
    made = trained("gssc_atoms", first, epochs=12)
    assert made.kept().test_score > 0.9
    deployed = made.deployed_molecules()
    np.testing.assert_array_equal(deployed.predict(without_bonds(first)), deployed.predict(first))


def without_bonds(molecules: MoleculeSet) -> MoleculeSet:
    """Return the atoms of a set without a bond between them."""
    starts = np.zeros_like(molecules.bond_starts)
    return molecules.with_(bonds=molecules.bonds[:, :0], bond_fields=molecules.bond_fields[:0], bond_starts=starts)


def test_the_first_member_gets_atoms_alone_and_the_second_environments(molecules: MoleculeSet) -> None:
    deployed = trained("gssc", molecules).deployed_molecules()
    for member, same in zip(deployed.members, (True, False), strict=True):
        alone = replace(deployed, members=[member])
        assert np.allclose(alone.predict(without_bonds(molecules)), alone.predict(molecules), atol=1e-5) == same


def test_keep_probabilities_move_and_the_ablation_keeps_every_bond(molecules: MoleculeSet) -> None:
    _, keep = trained("gssc", molecules).edge_trust()
    assert keep.std() > 1e-4
    assert (keep < 1).all()
    _, every = trained("gssc", molecules, sparsify=False).edge_trust()
    assert (every == 1).all()


@pytest.mark.parametrize("pooling", ["mean", "mean_and_sum"])
def test_the_sum_tells_one_molecule_of_methane_from_two(pooling: str) -> None:
    pair = featurize(["C", "C.C"], np.array([[0.0], [1.0]]), ["y"]).with_(train=np.arange(2))
    config = quick("gssc", pooling=pooling, use_size=False)
    one, two = molecule_model("gssc").training_class()(pair, config).predict(np.arange(2)).ravel()
    assert (one == pytest.approx(two)) == (pooling == "mean")


def test_members_have_weights_of_their_own_and_their_mean_predicts(molecules: MoleculeSet) -> None:
    made = trained("gssc", molecules, members=2)
    batch = collate(molecules, molecules.test)
    made.averaged.model.eval()
    first, second = made.member_logits(made.averaged.model, batch).detach()
    assert not torch.allclose(first, second)
    np.testing.assert_allclose(made.predict(molecules.test), ((first + second) / 2).numpy(), atol=1e-5)


def test_dropped_environments_are_zero_and_the_fields_stay() -> None:
    rows = AtomRows(small_set(), RowFormat(radius=2)).matrix
    matrix = rows.copy()
    drop_environments(matrix, 2, 0.75, np.random.default_rng(0))
    fields, hashed = matrix[:, :ATOM_WIDTH], matrix[:, ATOM_WIDTH:].data
    assert (fields != rows[:, :ATOM_WIDTH]).nnz == 0
    assert set(hashed) == {0, 4}
    assert 0.6 < (hashed == 0).mean() < 0.9


def test_equal_bonds_are_trusted_equally(molecules: MoleculeSet) -> None:
    made = trained("gssc", molecules)
    bonds, keep = made.edge_trust()
    kinds = np.sort(made.rows.of_atom[bonds], axis=0)
    same = (kinds == kinds[:, :1]).all(0)
    assert same.sum() > 1
    assert np.unique(keep[same]).size == 1


def test_regression_of_a_computed_property(molecules: MoleculeSet) -> None:
    wanted = properties(molecules, "logp", "tpsa")
    made = trained("gssc", wanted, epochs=40)
    spread = np.sqrt(((wanted.targets[wanted.test] - wanted.targets[wanted.train].mean(0)) ** 2).mean())
    assert made.task.metric == "negative_rmse"
    assert -made.kept().test_score < 0.7 * spread


def test_the_teacher_never_sees_or_predicts_a_test_molecule(molecules: MoleculeSet, monkeypatch: Any) -> None:
    other = featurize(["CCS", "CCCS", str(molecules.smiles[molecules.test[0]])])
    monkeypatch.setattr("gssc.molecules.pretrain.pool.load_molecules", lambda name: other)
    config = quick("gssc_taught")
    config.pool = "bbbp"
    made = molecule_model("gssc_taught").training_class()(molecules, config)
    hidden = {canonical(text) for text in molecules.smiles[molecules.test]}
    assert not hidden & {canonical(text) for text in made.molecules.smiles[len(molecules) :]}
    assert not set(molecules.test) & set(made.train_index)
    assert made.wanted[torch.from_numpy(molecules.test)].isnan().all()
    changed = molecules.targets.copy()
    changed[molecules.val] = 1 - changed[molecules.val]
    other_labels = molecule_model("gssc_taught").training_class()(molecules.with_(targets=changed), config)
    torch.testing.assert_close(made.wanted, other_labels.wanted, equal_nan=True)  # validation labels teach nothing
    weight = made.wanted[torch.from_numpy(molecules.train), 0].numpy()
    assert (np.abs(weight - molecules.targets[molecules.train, 0]) <= 0.5).all()


def test_environments_tell_apart_what_atom_fields_cannot() -> None:
    found = featurize(["CCCCO", "CCCCN"])
    near, far = environments(found, 2)
    assert (found.atoms[1] == found.atoms[6]).all()
    assert near[1] == near[6]  # the second carbon: same neighbours in both
    assert near[3] != near[8]  # the one beside O or N
    assert far[2] != far[7]
    assert far[1] == far[6]
    turned = featurize(["OCCCC"])
    assert set(environments(turned, 2)[1].tolist()) == set(far[:5].tolist())


def test_the_encoder_computes_what_plain_gcn_layers_compute(molecules: MoleculeSet) -> None:
    layers = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    encoder = GraphEncoder("gcn", 8, layers=1).eval()
    graph = GraphTensors.of(molecules, collate(molecules, np.arange(6)))
    plain = layers.GCNConv(8, 8)
    plain.load_state_dict(encoder.convolutions[0].state_dict())
    rows = encoder.atom_embedding(graph.atoms + encoder.offsets)
    expected = encoder.norms[0](plain(rows, graph.edges))
    torch.testing.assert_close(encoder(graph), expected)
    given = [
        torch.autograd.grad(out.square().sum(), encoder.atom_embedding.weight)[0] for out in (encoder(graph), expected)
    ]
    torch.testing.assert_close(*given)


def test_equal_rows_are_stored_once() -> None:
    found = featurize(["CCCC", "CC"])
    rows = AtomRows(found, RowFormat())
    assert rows.matrix.shape == (2, 177)  # CH3 and CH2
    assert rows.of_atom.tolist() == [rows.of_atom[0], rows.of_atom[1], rows.of_atom[1], *[rows.of_atom[0]] * 3]
    assert (rows.matrix.sum(1) == 9).all()
    assert AtomRows(found, RowFormat(radius=2, columns=50)).matrix.shape == (3, 277)  # CH3 of ethane is another


def test_mean_pool_by_hand() -> None:
    batch = collate(featurize(["CO", "C", "CCO"]), np.array([2, 1]))
    pooled = batch.mean_pool(torch.tensor([[1.0], [2.0], [6.0], [5.0]]))
    assert pooled.ravel().tolist() == [3.0, 5.0]
    assert batch.bonds.tolist() == [[0, 1], [1, 2]]


def test_loss_masks_the_unknown_and_balances_classes() -> None:
    texts, targets = ["C"] * 4, np.array([[1, np.nan], [0, np.nan], [0, 1], [0, 0]])
    made = featurize(texts, targets, ["a", "b"]).with_(train=np.arange(4))
    objective = GraphObjective(made)
    assert objective.positive_weight.tolist() == [3, 1]
    # log 2 for each known entry, the one positive of the first target three times: (3 + 3 + 2) / 6 entries
    loss = objective.loss(torch.zeros(4, 2), objective.wanted(made.targets))
    assert loss.item() == pytest.approx(np.log(2) * 8 / 6)
    assert GraphObjective(made, balance=False).positive_weight.tolist() == [1, 1]


def test_an_epoch_has_all_rare_labels_and_a_draw_of_the_rest(molecules: MoleculeSet) -> None:
    targets = np.zeros((60, 2))
    targets[molecules.train[:2], 0] = 1  # two of thirty training molecules
    targets[:, 1] = np.nan
    made = molecule_model("gcn").training_class()(molecules.with_(targets=targets), quick("gcn"))
    every = made.molecules_of_epoch()
    assert made.objective.positive_weight[0] == 14  # 28 to 2
    np.testing.assert_array_equal(every, molecules.train)  # 28 is less than 30 for each rare one
    config = quick("gcn")
    config.train.common_per_rare = 3
    made = molecule_model("gcn").training_class()(molecules.with_(targets=targets), config)
    assert made.objective.positive_weight[0] == pytest.approx(3)
    drawn = [made.molecules_of_epoch() for _ in range(200)]
    assert all(set(molecules.train[:2]) <= set(epoch) <= set(molecules.train) for epoch in drawn)
    assert np.mean([len(epoch) for epoch in drawn]) == pytest.approx(2 + 6, abs=0.7)
    assert len({tuple(epoch) for epoch in drawn}) > 100
    assert set(np.concatenate(drawn)) == set(molecules.train)


def test_batch_norms_of_a_regression_have_the_statistics_of_atoms_as_they_are_predicted(molecules: MoleculeSet) -> None:
    made = trained("gssc_atoms", properties(molecules, "logp"))
    (member,) = made.averaged.model
    rows = SparseRows(made.rows.matrix[made.rows.of_atom[collate(molecules, molecules.train).atoms]])
    hidden = member.atoms.first(rows)
    norm = member.atoms.norms[0].norm
    torch.testing.assert_close(norm.running_mean, hidden.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_var, hidden.var(0), rtol=1e-3, atol=1e-4)
    assert member.atoms.config.dropout == 0.2  # as before


def test_average_precision_by_hand() -> None:
    assert average_precision(np.zeros((4, 1)), np.array([[1.0], [0], [0], [0]])) == 0.25
    both = average_precision(np.array([[3.0, 1], [2, 2], [1, 3]]), np.array([[0.0, 1], [1, np.nan], [1, 0]]))
    assert both == pytest.approx((7 / 12 + 1 / 2) / 2)


def test_bad_use_is_refused(molecules: MoleculeSet) -> None:
    with pytest.raises(GsscError, match="did you mean 'gssc'"):
        molecule_model("gsc")
    with pytest.raises(GsscError, match="no training molecules"):
        molecule_model("gcn").training_class()(molecules.take([0, 1]), quick("gcn"))
    one = molecules.targets.copy()
    one[1:] = np.nan
    single = molecules.with_(targets=one, train=np.arange(9), val=[], test=[])
    with pytest.raises(GsscError, match="1 training molecules with a known target, 16 per batch: at least two"):
        molecule_model("gssc").training_class()(single, quick("gssc"))

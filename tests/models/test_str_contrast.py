"""STR-Contrast: the mixed point, batch norm by role, dropout, and the fold into plain matrix products."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from gssc.deploy import DeployedModel
from gssc.features import FeatureTable
from gssc.models.dropout import dropout_mask
from gssc.models.mixing import gather_and_mix, mix_ends, windows
from gssc.models.norm_activation import NormActivation
from gssc.models.settings import STRContrastSettings
from gssc.models.str_contrast import PairLogits, STRContrast
from gssc.tasks import Classes
from gssc.train import losses
from gssc.train.batches import EdgeBatch, EdgeBatches

NODES, FEATURES, CLASSES = 12, 5, 3
TASK = Classes(3)
SMALL = STRContrastSettings(hidden=6, dropout=0.0)
MIX_AT = ("first", "last")
MIX_BY = ("own_net", "vector", "off")
HEADS = ("separate", "shared")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def features() -> np.ndarray:
    return rng(1).standard_normal((NODES, FEATURES)).astype(np.float32)


def pairs() -> np.ndarray:
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES])
    return np.concatenate([ring, ring[::-1]], axis=1)


def a_batch(negatives: str = "uniform", count: int = 10, sparse: bool = False) -> EdgeBatch:
    stored = sp.csr_matrix(features()) if sparse else features()
    batches = EdgeBatches(FeatureTable(stored), torch.arange(NODES) % CLASSES, 1000, negatives)
    (batch,) = batches.epoch(pairs()[:, :count], rng(2))
    return batch


def a_model(config: STRContrastSettings = SMALL, seed: int = 0) -> STRContrast:
    torch.manual_seed(seed)
    return STRContrast(FEATURES, CLASSES, config)


def fresh(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The module in training mode with a generator at its start."""
    for part in module.modules():
        if hasattr(part, "rng"):
            part.rng = rng(seed)
    return module.train()


def compared(model: STRContrast, batch: EdgeBatch, seed: int = 0) -> PairLogits:
    return fresh(model, seed).compare(batch)


def worn(config: STRContrastSettings) -> STRContrast:
    """A model whose norms are far from where they began, as after training."""
    model = a_model(config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith(("scale", "running_var")):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.3)
            elif name.endswith(("shift", "running_mean")):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return model


# Prediction and its folded form ----------------------------------------------------------------------------------


@pytest.mark.parametrize("head_norms", HEADS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("activation", ["leaky_relu", "relu"])
@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
@torch.no_grad()
def test_the_deployed_model_predicts_what_the_trained_one_does(
    layer_order: str, activation: str, layers: int, head_norms: str
):
    config = replace(
        SMALL, layer_order=layer_order, activation=activation, layers=layers, head_norms=head_norms, dropout=0.5
    )
    model = worn(config)
    deployed = DeployedModel(model.folded_layers(), ["a", "b", "c"], activation=activation)
    assert deployed.widths == [FEATURES, *[6] * layers, CLASSES]
    expected = model.eval()(torch.from_numpy(features())).numpy()
    assert np.abs(expected).max() > 0.1
    assert np.allclose(deployed.logits(features()), expected, atol=1e-5)
    assert np.allclose(deployed.logits(sp.csr_matrix(features())), expected, atol=1e-5)


@torch.no_grad()
def test_prediction_is_the_mlp_of_eq_7_written_out():
    model = worn(replace(SMALL, layer_order="activation_first", activation="relu", layers=2))
    x = torch.from_numpy(features())
    for step, linear in zip((*model.norms, model.predict_norm), (*model.linears, model.predict_head), strict=True):
        x = F.relu(x @ model.first.weight + model.first.bias) if x.shape[1] == FEATURES else F.relu(x)
        norm = step.norm
        x = (x - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.scale + norm.shift
        x = linear(x)
    assert torch.allclose(model.eval()(torch.from_numpy(features())), x, atol=1e-5)


def test_a_row_is_predicted_alone_as_it_is_in_company():
    model = worn(SMALL)
    together = model.eval()(torch.from_numpy(features()))
    alone = torch.cat([model.eval()(torch.from_numpy(features()[i : i + 1])) for i in range(NODES)])
    assert torch.allclose(together, alone, atol=1e-6)


def test_predicting_changes_nothing():
    model = worn(SMALL)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = model.eval()(torch.from_numpy(features()))
    assert torch.equal(first, model.eval()(torch.from_numpy(features())))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
def test_the_folded_layers_do_not_move_with_later_training(layer_order: str):
    model = worn(replace(SMALL, layer_order=layer_order))
    deployed = DeployedModel(model.folded_layers(), ["a", "b", "c"], activation="leaky_relu")
    before = deployed.logits(features())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert np.array_equal(deployed.logits(features()), before)


# Every row once per batch --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mix_by", MIX_BY)
@pytest.mark.parametrize("negatives", ["uniform", "none"])
def test_outputs_of_rows_are_mixed_as_the_last_layer_of_pairs_is(negatives: str, mix_by: str, layers: int):
    """Head g is linear, so that mixing commutes with it; without norms and dropout, gradients are equal too."""
    config = replace(SMALL, norm="none", head_norms="shared", mix_by=mix_by, layers=layers)
    batch, found = a_batch(negatives), {}
    for mix_at in ("last", "output"):
        model = a_model(replace(config, mix_at=mix_at))
        out = compared(model, batch)
        smoothness = losses.pair_smoothness(TASK, out.endpoints, out.mixed, out.negatives).mean()
        (smoothness + losses.classification(TASK, out.endpoints, out.mixed, batch.labels)).backward()
        parts = [out.endpoints, out.mixed] + ([] if out.negatives is None else [out.negatives])
        found[mix_at] = parts + [part.grad for part in model.parameters() if part.grad is not None]
    assert len(found["last"]) == len(found["output"]) > 6
    for last, output in zip(found["last"], found["output"], strict=True):
        assert torch.allclose(last, output, atol=1e-5)


def test_a_negative_in_the_batch_is_half_a_batch_away():
    batch = a_batch("in_batch")
    out = compared(a_model(replace(SMALL, mix_at="output", mix_by="off", mix_floor=1.0)), batch)
    assert batch.negatives_in_batch
    assert out.negatives is not None
    assert torch.equal(out.negatives, out.mixed[0].roll(len(batch) // 2, 0))  # with beta 1, z of the target


# Eq. 8, the mixed point --------------------------------------------------------------------------------------------


def z_of(model: STRContrast, hidden: Tensor) -> Tensor:
    """Head g on a group of rows that already stand where the last norm begins (separate heads, no dropout)."""
    norm = model.contrast_norm.norm
    normed = F.batch_norm(hidden, None, None, norm.scale, norm.shift, True)
    return model.contrast_head(F.leaky_relu(normed, 0.01))


@pytest.mark.parametrize("mix_at", MIX_AT)
def test_with_mixing_off_the_mixed_point_is_the_neighbour(mix_at: str):
    model, batch = a_model(replace(SMALL, layers=1, mix_by="off", mix_at=mix_at)), a_batch()
    hidden = model.first(batch.rows)
    out = compared(model, batch)
    assert torch.allclose(out.mixed[0], z_of(model, hidden[batch.target]), atol=1e-5)
    assert torch.allclose(out.mixed[1], z_of(model, hidden[batch.source]), atol=1e-5)
    assert torch.allclose(out.negatives, z_of(model, hidden[batch.negative]), atol=1e-5)


@pytest.mark.parametrize("floor", [0.0, 0.8])
def test_beta_of_the_text_is_a_shared_vector_on_both_ends(floor: float):
    config = replace(SMALL, layers=1, mix_by="vector", mix_floor=floor)
    model, batch = a_model(config), a_batch()
    hidden = model.first(batch.rows)
    h_i, h_j = hidden[batch.source], hidden[batch.target]
    out = compared(model, batch)
    for direction, (own, other) in enumerate([(h_i, h_j), (h_j, h_i)]):
        beta = torch.sigmoid(torch.cat([own, other], dim=1) @ model.mix_vector.weight[0])
        beta = (floor + (1 - floor) * beta).unsqueeze(1)
        assert torch.allclose(out.mixed[direction], z_of(model, beta * other + (1 - beta) * own), atol=1e-5)


def test_a_floor_of_one_is_the_neighbour_itself():
    batch = a_batch()
    by_floor = a_model(replace(SMALL, mix_by="vector", mix_floor=1.0))
    off = a_model(replace(SMALL, mix_by="off"))
    assert torch.allclose(compared(by_floor, batch).mixed, compared(off, batch).mixed, atol=1e-5)


@pytest.mark.parametrize(("mix_by", "learned"), [("own_net", True), ("vector", True), ("off", False)])
@pytest.mark.parametrize("mix_at", MIX_AT)
def test_a_learnable_beta_learns(mix_by: str, learned: bool, mix_at: str):
    model, batch = a_model(replace(SMALL, mix_by=mix_by, mix_at=mix_at)), a_batch()
    out = compared(model, batch)
    losses.pair_smoothness(TASK, out.endpoints, out.mixed, out.negatives).mean().backward()
    mixing = {name: p for name, p in model.named_parameters() if name.startswith("mix")}
    assert bool(mixing) == learned
    for name in ("mix.attention", "mix.linear.weight", "mix_vector.weight"):
        if name in mixing:
            assert mixing[name].grad.abs().sum() > 0


@pytest.mark.parametrize(("mix_by", "rates"), [("own_net", [None, 1e-4]), ("off", [None])])
def test_what_gives_beta_learns_at_a_rate_of_its_own(mix_by: str, rates: list[float | None]):
    model = a_model(replace(SMALL, mix_by=mix_by))
    groups = model.parameter_groups(1e-4)
    assert [group.get("lr") for group in groups] == rates
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(id(parameter) for parameter in model.parameters())
    mixing = {id(parameter) for name, parameter in model.named_parameters() if name.startswith("mix")}
    assert {id(parameter) for group in groups[1:] for parameter in group["params"]} == mixing


# Roles ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("head_norms", "mix_at"), list(product(HEADS, MIX_AT)))
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("negatives", ["uniform", "degree", "in_batch", "none"])
def test_every_architecture_gives_every_logit_the_losses_need(
    head_norms: str, mix_at: str, layers: int, negatives: str
):
    config = replace(SMALL, head_norms=head_norms, mix_at=mix_at, layers=layers, dropout=0.5)
    model, batch = a_model(config), a_batch(negatives)
    out = compared(model, batch)
    assert out.endpoints.shape == out.mixed.shape == (2, 10, CLASSES)
    if negatives == "none":
        assert out.negatives is None
    else:
        assert out.negatives.shape == (10, CLASSES)
    loss = losses.pair_smoothness(TASK, out.endpoints, out.mixed, out.negatives).mean()
    (loss + losses.classification(TASK, out.endpoints, out.mixed, batch.labels)).backward()
    for name, parameter in model.named_parameters():
        if name not in ("mix.linear.bias",):  # batch norm takes every constant away again
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(("mix_at", "head_norms"), list(product(MIX_AT, HEADS)))
def test_sparse_and_dense_features_train_alike(mix_at: str, head_norms: str):
    gradients = []
    for sparse in (False, True):
        model = a_model(replace(SMALL, mix_at=mix_at, head_norms=head_norms, dropout=0.5))
        out = compared(model, a_batch(sparse=sparse))
        losses.pair_smoothness(TASK, out.endpoints, out.mixed, out.negatives).mean().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, dense in gradients[0].items():
        assert torch.allclose(dense, gradients[1][name], atol=1e-5), name


@pytest.mark.parametrize(("mix_at", "head_norms"), list(product(MIX_AT, HEADS)))
def test_in_batch_negatives_are_the_targets_of_other_pairs(mix_at: str, head_norms: str):
    config = replace(SMALL, mix_by="off", mix_at=mix_at, head_norms=head_norms)
    model, batch = a_model(config), a_batch("in_batch")
    out = compared(model, batch)
    # With mixing off, the mixed point of direction i -> j is z of the target; its batch statistics are the targets'.
    targets = out.mixed[0]
    assert torch.allclose(out.negatives, targets.roll(1, 0), atol=1e-5)
    assert not torch.allclose(out.negatives, targets, atol=1e-3)


def test_each_role_is_normalised_on_its_own():
    spread = torch.tensor([1.0, 5.0, 0.5]).view(3, 1, 1)
    groups = torch.rand(3, 8, 6, generator=torch.Generator().manual_seed(0)) * spread
    no_activation = replace(
        SMALL, layer_order="activation_first"
    )  # positive rows and the norm last: nothing else happens
    normed = NormActivation(6, no_activation, rng())(groups)
    assert torch.allclose(normed.mean(1), torch.zeros(3, 6), atol=1e-5)
    assert torch.allclose(normed.var(1, unbiased=False), torch.ones(3, 6), atol=1e-2)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("activation", ["leaky_relu", "relu"])
@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
def test_the_written_out_step_is_pytorchs_own_forward_and_backward(layer_order: str, activation: str, rate: float):
    config = replace(SMALL, layer_order=layer_order, activation=activation, dropout=rate)
    generator = torch.Generator().manual_seed(0)
    part = NormActivation(4, config, rng())
    with torch.no_grad():
        part.norm.scale.copy_(torch.randn(4, generator=generator))
        part.norm.shift.copy_(torch.randn(4, generator=generator))
    x = torch.randn(3, 7, 4, generator=generator)
    upstream = torch.randn(3, 4, 7, generator=generator).transpose(1, 2)  # not laid out in order, as a split's may be

    def activate(rows: Tensor) -> Tensor:
        return F.leaky_relu(rows, 0.01) if activation == "leaky_relu" else F.relu(rows)

    def reference(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        if layer_order == "activation_first":
            x = activate(x)
        groups = list(x)
        x = torch.cat([F.batch_norm(rows, None, None, scale, shift, True) for rows in groups]).view(3, 7, 4)
        if layer_order == "norm_first":
            x = activate(x)
        mask = dropout_mask(x.shape, rate, rng())
        return x if mask is None else x * mask

    results = []
    for function in (lambda x, scale, shift: fresh(part)(x, tracked=2), reference):
        leaves = [leaf.detach().clone().requires_grad_() for leaf in (x, part.norm.scale, part.norm.shift)]
        part.norm.scale.grad = part.norm.shift.grad = None
        out = function(*leaves)
        out.backward(upstream)
        gradients = [leaf.grad if leaf.grad is not None else own.grad for leaf, own in
                     zip(leaves, (leaves[0], part.norm.scale, part.norm.shift), strict=True)]  # fmt: skip
        results.append([out.detach(), *gradients])
    for own, expected in zip(*results, strict=True):
        assert torch.allclose(own, expected, atol=1e-5)


def test_running_statistics_are_those_of_pytorchs_batch_norm_over_the_tracked_groups():
    x = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0)) + 2
    part, norm = NormActivation(4, SMALL, rng()), torch.nn.BatchNorm1d(4)
    part(x, tracked=2)
    for rows in x[:2]:
        norm(rows)
    assert torch.allclose(part.norm.running_mean, norm.running_mean)
    assert torch.allclose(part.norm.running_var, norm.running_var)


@pytest.mark.parametrize("head_norms", HEADS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mix_at", MIX_AT)
def test_only_endpoints_enter_the_statistics_prediction_uses(mix_at: str, layers: int, head_norms: str):
    """Mixed points and negatives that differ must leave what prediction uses as it is."""
    config = replace(SMALL, layers=layers, mix_at=mix_at, head_norms=head_norms, mix_by="vector", mix_floor=0.0)
    batch, statistics = a_batch(), []
    for shift in (0, 1):
        model = a_model(config)
        changed = replace(batch, negative=(batch.negative + shift) % batch.rows.shape[0])
        model.mix_vector.weight.data.fill_(shift)
        compared(model, changed)
        steps = [*model.norms, model.predict_norm]
        statistics.append([torch.stack([step.norm.running_mean, step.norm.running_var]) for step in steps])
    for first, second in zip(*statistics, strict=True):
        assert not torch.equal(first[0], torch.zeros(6))
        assert torch.allclose(first, second, atol=1e-6)


def test_a_batch_of_one_pair_uses_the_running_statistics():
    for negatives in ("uniform", "in_batch", "none"):
        model, batch = worn(SMALL), a_batch(negatives, count=1)
        out = compared(model, batch)
        expected = model.eval()(batch.rows)
        assert torch.allclose(out.endpoints[0], expected[batch.source], atol=1e-5)
        assert out.mixed.isfinite().all()


# Dropout -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_drops_at_its_rate_and_is_unbiased(rate: float):
    mask = dropout_mask(torch.Size([400, 500]), rate, rng())
    cut = round(rate * 256)
    assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=0.005)  # up to 1/512 of it is rounding
    assert mask.mean().item() == pytest.approx(1, abs=0.02)
    assert mask.unique().tolist() == pytest.approx([0, 256 / (256 - cut)])


def test_dropout_draws_each_unit_on_its_own_and_anew_each_time():
    generator = rng()
    first, second = (dropout_mask(torch.Size([200, 301]), 0.5, generator) > 0 for _ in range(2))
    for mask in (first, second, first ^ second):
        assert mask.float().mean().item() == pytest.approx(0.5, abs=0.02)
        assert mask.float().mean(0).std().item() < 0.06  # 0.035 when independent
        assert mask.float().mean(1).std().item() < 0.05


def test_no_dropout_needs_no_mask_and_no_random_numbers():
    generator = rng()
    assert dropout_mask(torch.Size([3, 4]), 0.0, generator) is None
    assert generator.random() == rng().random()


def test_prediction_drops_nothing():
    part = NormActivation(6, replace(SMALL, dropout=0.9), rng()).eval()
    x = torch.ones(1, 50, 6)
    assert torch.equal(part(x), NormActivation(6, SMALL, rng()).eval()(x))


def test_repr_has_the_widths():
    assert repr(a_model(replace(SMALL, layers=3))) == "STRContrast(5 -> 6 -> 6 -> 6 -> 3)"


def test_mixing_both_ends_equals_the_formula_in_value_and_gradient():
    ends = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    beta = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    by_hand = torch.stack(
        [(1 - beta[0, :, None]) * ends[0] + beta[0, :, None] * ends[1],
         (1 - beta[1, :, None]) * ends[1] + beta[1, :, None] * ends[0]]
    )  # fmt: skip
    assert torch.allclose(mix_ends(ends, beta), by_hand)
    assert torch.autograd.gradcheck(mix_ends, (ends, beta))


@pytest.mark.parametrize("drawn", [0, 1])
def test_gathering_and_mixing_at_once_is_gathering_then_mixing(drawn: int):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    beta = torch.rand(2, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    positions = torch.randint(4, (5 * (2 + drawn),), generator=generator)
    groups = rows[positions].view(2 + drawn, 5, 3)
    by_parts = torch.cat([groups[:2], mix_ends(groups[:2], beta), groups[2:]])
    assert torch.equal(gather_and_mix(rows, positions, beta), by_parts)
    assert torch.autograd.gradcheck(lambda r, b: gather_and_mix(r, positions, b), (rows, beta))


@pytest.mark.parametrize("start", [1, 2])
def test_windows_that_overlap_add_up_their_gradients(start: int):
    x = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    first, second = windows(x, 2, start)
    assert torch.equal(first, x[:2])
    assert torch.equal(second, x[start:])
    assert torch.autograd.gradcheck(lambda x: windows(x, 2, start), (x,))


def test_a_block_cannot_go_back_twice_over_arrays_it_has_used_up():
    out = NormActivation(4, SMALL, rng())(torch.randn(2, 5, 4, requires_grad=True)).sum()
    out.backward(retain_graph=True)
    with pytest.raises(AttributeError):
        out.backward()


# The plain path --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer_order", ["norm_first", "activation_first"])
def test_the_plain_path_computes_what_the_fast_one_does(layer_order: str) -> None:
    config = STRContrastSettings(hidden=6, dropout=0.5, layer_order=layer_order)  # type: ignore[arg-type]
    batch, found = a_batch(), []
    for plain in (False, True):
        torch.manual_seed(0)
        model = STRContrast(FEATURES, CLASSES, config, rng(5), plain=plain)
        out = model.compare(batch)
        loss = out.endpoints.square().sum() + out.mixed.square().sum() + out.negatives.square().sum()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        found.append([out.endpoints, out.mixed, out.negatives, *gradients, *model.buffers()])
    assert all(torch.allclose(fast, plain, atol=1e-4) for fast, plain in zip(*found, strict=True))


@pytest.mark.parametrize("negatives", ["uniform", "in_batch"])
@pytest.mark.parametrize("mix_by", ["own_net", "vector", "off"])
@pytest.mark.parametrize("mix_at", ["first", "last"])
def test_nothing_is_computed_on_another_device_than_the_models(mix_at: str, mix_by: str, negatives: str) -> None:
    """Tensors of the device "meta" have no values; an operation that meets one of a CPU as well is an error."""
    config = STRContrastSettings(hidden=6, mix_at=mix_at, mix_by=mix_by)  # type: ignore[arg-type]
    model, batch = STRContrast(FEATURES, CLASSES, config).to("meta"), a_batch(negatives)
    names = ("rows", "source", "target", "labels", *(["negative"] if batch.negative is not None else []))
    moved = replace(batch, **{name: getattr(batch, name).to("meta") for name in names})
    out = model.compare(moved)
    (out.endpoints.sum() + out.mixed.sum() + out.negatives.sum()).backward()
    assert out.endpoints.shape == (2, 10, CLASSES)
    assert model.eval()(moved.rows).device.type == "meta"


def test_a_model_has_no_dropout_and_no_batch_statistics_once_it_is_told_to_predict() -> None:
    model = a_model(STRContrastSettings(hidden=6, dropout=0.5))
    rows = torch.from_numpy(features())
    assert not torch.equal(model(rows), model(rows))
    before = [buffer.clone() for buffer in model.buffers()]
    model.eval()
    assert torch.equal(model(rows), model(rows))
    assert all(map(torch.equal, before, model.buffers()))

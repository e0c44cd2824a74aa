"""Edge scores in chunks, the frequency of what is kept, and the gradient of the sample."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
import torch

from gssc.sparsify import relaxed
from gssc.sparsify.relaxed import edge_dots, sample_edges


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(7))


def test_chunks_change_neither_value_nor_gradient(monkeypatch: pytest.MonkeyPatch):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 10, (2, 23), generator=generator)
    upstream = torch.randn(23, generator=generator, dtype=torch.float64)
    z = torch.randn(10, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    plain = (z[edges[0]] * z[edges[1]]).sum(1)
    (expected,) = torch.autograd.grad((plain * upstream).sum(), z)
    for chunk in (1, 5, 23, 1000):
        monkeypatch.setattr(relaxed, "CHUNK", chunk)
        dots = edge_dots(z, edges)
        (gradient,) = torch.autograd.grad((dots * upstream).sum(), z)
        assert torch.allclose(dots, plain)
        assert torch.allclose(gradient, expected)


# Sampling -------------------------------------------------------------------------------------------------------

DRAWS = 40_000  # the standard error of a frequency is at most 0.0025


@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("probability", [0.05, 0.3, 0.5, 0.9, 0.99])
def test_logistic_noise_keeps_an_edge_with_probability_m(probability: float, temperature: float):
    sample = sample_edges(torch.full((DRAWS,), probability), temperature, "logistic", rng())
    assert sample.mean().item() == pytest.approx(probability, abs=0.01)


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_gumbel_noise_keeps_an_edge_as_eq_6_is_written(probability: float):
    # log M + G > 0 with G = -log(-log U): U > exp(-M), so an edge is kept with 1 - exp(-M).
    sample = sample_edges(torch.full((DRAWS,), probability), 0.5, "gumbel", rng())
    assert sample.mean().item() == pytest.approx(1 - exp(-probability), abs=0.01)


@pytest.mark.parametrize("noise", ["logistic", "gumbel"])
def test_a_sample_is_exactly_zero_or_one(noise: str):
    probability = torch.from_numpy(rng().random(DRAWS, dtype=np.float32))
    values = sample_edges(probability, 0.5, noise, rng()).unique().tolist()
    assert values == [0.0, 1.0]


@pytest.mark.parametrize("noise", ["logistic", "gumbel"])
def test_certain_and_impossible_edges_are_finite_in_value_and_gradient(noise: str):
    probability = torch.tensor([0.0, 1.0], requires_grad=True)
    sample = sample_edges(probability, 0.1, noise, rng())
    sample.sum().backward()
    assert sample.isfinite().all()
    assert probability.grad.isfinite().all()


@pytest.mark.parametrize("noise", ["logistic", "gumbel"])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_the_gradient_is_the_relaxed_one(noise: str, temperature: float):
    """The step itself has no slope; finite differences of the sigmoid under it, with the same noise, do."""
    start = torch.tensor([0.2, 0.5, 0.8, 0.93], dtype=torch.float64)

    def by_hand(probability: torch.Tensor) -> torch.Tensor:
        uniform = torch.from_numpy(rng().random(len(start), dtype=np.float32)).double()
        if noise == "logistic":
            perturbed = torch.log(probability / (1 - probability)) + torch.log(uniform / (1 - uniform))
        else:
            perturbed = probability.log() - torch.log(-torch.log(uniform))
        return torch.sigmoid(perturbed / temperature)

    step = 1e-6
    slopes = (by_hand(start + step) - by_hand(start - step)) / (2 * step)
    probability = start.clone().requires_grad_()
    sample_edges(probability, temperature, noise, rng()).sum().backward()
    assert torch.allclose(probability.grad, slopes, rtol=1e-3)
    assert (probability.grad > 0).all()


def test_the_same_generator_gives_the_same_sample():
    probability = torch.full((1000,), 0.5)
    first, second = (sample_edges(probability, 0.5, "logistic", rng()) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, sample_edges(probability, 0.5, "logistic", np.random.default_rng(8)))

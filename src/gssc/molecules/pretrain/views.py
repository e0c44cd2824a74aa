"""Augmented views of a batch of molecules: atoms dropped, atoms hidden, bonds dropped, a connected part kept."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gssc.molecules.models.encoder import GraphTensors
from gssc.molecules.pretrain.pretext import random_mask

AUGMENTATIONS = ("drop_atoms", "hide_atoms", "drop_bonds", "subgraph")


def random_view(
    graph: GraphTensors, share: float, rng: np.random.Generator, kind: str | None = None
) -> tuple[GraphTensors, Tensor | None]:
    """Return an augmented batch and a mask of the atoms to hide in it, if any, by a random or named augmentation."""
    kind = kind or AUGMENTATIONS[rng.integers(len(AUGMENTATIONS))]
    count = len(graph.atoms)
    if kind == "hide_atoms":
        return graph, random_mask(count, share, rng)
    if kind == "drop_bonds":
        return without_bonds(graph, rng.random(graph.edges.shape[1] // 2) >= share), None
    if kind == "drop_atoms":
        return without_atoms(graph, rng.random(count) >= share), None
    return without_atoms(graph, neighbourhood(graph, rng)), None


def without_bonds(graph: GraphTensors, kept: np.ndarray) -> GraphTensors:
    """Return the batch with the bonds of the mask ``kept`` [b] only; both directions of a bond are kept together."""
    both = torch.from_numpy(np.tile(kept, 2))
    return GraphTensors(graph.atoms, graph.edges[:, both], graph.bond_fields[both], graph.owner, graph.count)


def without_atoms(graph: GraphTensors, kept: np.ndarray) -> GraphTensors:
    """Return the batch with the atoms of the mask ``kept`` [n] and their bonds; every molecule keeps an atom."""
    first = np.flatnonzero(np.diff(graph.owner.numpy(), prepend=-1))
    alive = np.bincount(graph.owner.numpy()[kept], minlength=graph.count) > 0
    kept = kept.copy()
    kept[first[~alive]] = True
    mask = torch.from_numpy(kept)
    number = torch.cumsum(mask, 0) - 1
    inside = mask[graph.edges].all(0)
    edges, fields = number[graph.edges[:, inside]], graph.bond_fields[inside]
    return GraphTensors(graph.atoms[mask], edges, fields, graph.owner[mask], graph.count)


def neighbourhood(graph: GraphTensors, rng: np.random.Generator, steps: int = 4) -> np.ndarray:
    """Return the atoms within ``steps`` bonds of one random atom per molecule, as a mask [n]."""
    owner = graph.owner.numpy()
    sizes = np.bincount(owner, minlength=graph.count)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    mask = np.zeros(len(owner), dtype=bool)
    mask[starts + (rng.random(graph.count) * sizes).astype(np.int64)] = True
    source, target = graph.edges.numpy()
    for _ in range(steps):
        reached = mask.copy()
        reached[target[mask[source]]] = True
        mask = reached
    return mask

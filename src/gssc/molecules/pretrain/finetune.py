"""Pre-train an encoder once per pretext task, pool and settings; fine-tune it on the labels like a supervised GCN.

The pre-trained weights are stored in the cache folder, with a checkpoint after every epoch, so that pre-training
resumes after an interruption and the seeds of a comparison share it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from gssc.data.fetch import cache_root
from gssc.errors import GsscError
from gssc.molecules.batches import collate, shuffled
from gssc.molecules.models.encoder import GraphEncoder, GraphTensors
from gssc.molecules.models.gnn import GCNTraining, GraphClassifier
from gssc.molecules.molecule_set import MoleculeSet
from gssc.molecules.pretrain.pool import pretraining_pool
from gssc.molecules.pretrain.pretext import Pretext
from gssc.molecules.training import Schedule
from gssc.progress_bar import ProgressBar
from gssc.settings import setting
from gssc.train.checkpoint import State, load_checkpoint, restore_rng, rng_state, save_checkpoint
from gssc.train.optimize import descend

FORMAT = 1  # part of the cache key, to be increased when the same settings give other weights


@dataclass
class PretrainSettings:
    """Settings of pre-training, sized for two cores, and the schedule of fine-tuning.

    Args:
        width: width of every layer of the GCN.
        layers: number of its layers.
        dropout: share of its hidden units dropped in training.
        pool: sets whose molecules are used in addition to the target's own, separated by commas.
        pool_size: maximum number of molecules.
        pretrain_epochs: passes over them.
        pretrain_lr: learning rate of Adam.
        pretrain_batch: molecules per batch.
        train: The schedule of fine-tuning.
    """

    width: int = setting(128, low=1, high=2**20)
    layers: int = setting(3, low=1, high=1000)
    dropout: float = setting(0.2, low=0, high=0.99)
    pool: str = "bbbp,tox21,muv,hiv"
    pool_size: int = setting(6000, low=0)
    pretrain_epochs: int = setting(3, low=0)
    pretrain_lr: float = setting(1e-3, low=0)
    pretrain_batch: int = setting(128, low=1)
    train: Schedule = field(default_factory=Schedule)

    def of_pretraining(self) -> dict[str, Any]:
        """Return the settings that determine the pre-trained weights."""
        names = ("width", "layers", "dropout", "pool_size", "pretrain_epochs", "pretrain_lr", "pretrain_batch")
        return {name: getattr(self, name) for name in names}


class PretrainedTraining(GCNTraining):
    """Fine-tunes a GCN pre-trained by a pretext task."""

    pretext: ClassVar[type[Pretext]]

    def build(self) -> None:
        config = self.config
        pool = pretraining_pool(self.molecules, config.pool, config.pool_size)
        encoder = GraphEncoder("gcn", config.width, config.layers, config.dropout)
        with torch.random.fork_rng(devices=[]):
            pretrained(self.pretext, encoder, pool, config)
        self.model = GraphClassifier(encoder, self.molecules.num_targets)


def pretrained(pretext: type[Pretext], encoder: GraphEncoder, pool: MoleculeSet, config: PretrainSettings) -> None:
    """Pre-train an encoder in place, starting from the cache if possible."""
    path = checkpoint_path(pretext, pool, config)
    state = load_checkpoint(path) if path.exists() else None
    if state and state["epoch"] >= config.pretrain_epochs:  # the task is not built: some compute much in advance
        own, weights = "encoder.", state["task"]
        encoder.load_state_dict({name.removeprefix(own): weights[name] for name in weights if name.startswith(own)})
        return
    with ProgressBar("pre-training", config.pretrain_epochs, "epochs") as bar:
        task = pretrain(pretext, pool, config, path, state, bar.advance)
    encoder.load_state_dict(task.encoder.state_dict())


def pretrain(
    pretext: type[Pretext],
    pool: MoleculeSet,
    config: PretrainSettings,
    path: Path,
    state: State | None,
    advance: Callable[[int], None],
) -> Pretext:
    """Return the pre-trained task.

    Args:
        pretext: the task to train.
        pool: the molecules.
        config: the settings.
        path: the checkpoint to write after each epoch.
        state: the content of an earlier checkpoint to start from.
        advance: called with the number of epochs that are done.
    """
    torch.manual_seed(0)
    task = pretext(GraphEncoder("gcn", config.width, config.layers, config.dropout), pool)
    optimizer = torch.optim.Adam(task.parameters(), lr=config.pretrain_lr, fused=True)
    rng = np.random.Generator(np.random.SFC64(0))
    epoch = 0
    if state:
        task.load_state_dict(state["task"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch"])
        restore_rng(rng, state["rng"])
        epoch = state["epoch"]
        advance(epoch)
    index = task.usable(np.arange(len(pool)))
    while epoch < config.pretrain_epochs:
        one_pass(task, optimizer, pool, index, config.pretrain_batch, rng)
        epoch += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        random = {"torch": torch.get_rng_state(), "rng": rng_state(rng)}
        parts = {"task": task.state_dict(), "optimizer": optimizer.state_dict(), **random}
        save_checkpoint(path, {**parts, "epoch": epoch})
        advance(1)
    return task


def one_pass(
    task: Pretext, optimizer: Any, pool: MoleculeSet, index: np.ndarray, size: int, rng: np.random.Generator
) -> float:
    """Take one step per batch of the pool and return the mean loss."""
    task.train()
    total, count = 0.0, 0
    for chosen in shuffled(index, size, rng):
        if len(chosen) < 2:
            continue
        batch = collate(pool, chosen)
        loss = task.loss(batch, GraphTensors.of(pool, batch), rng)
        descend(loss, optimizer)
        total, count = total + loss.item(), count + 1
    if not np.isfinite(total):
        raise GsscError("pre-training diverged: the loss is not finite; lower pretrain_lr")
    return total / max(count, 1)


def checkpoint_path(pretext: type[Pretext], pool: MoleculeSet, config: PretrainSettings) -> Path:
    """Return the cache path of the weights of a pretext task on these molecules with these settings."""
    digest = hashlib.sha256(json.dumps([FORMAT, pretext.__name__, config.of_pretraining()]).encode())
    for text in pool.smiles:
        digest.update(str(text).encode() + b"\n")
    return cache_root() / "molecules" / "pretrained" / f"{pretext.__name__}-{digest.hexdigest()[:24]}.safetensors"

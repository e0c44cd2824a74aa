"""Everything a training needs to go on after an interruption, taken out and put back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gssc.train.checkpoint import (
    State,
    module_state,
    optimizer_state,
    restore_optimizer,
    restore_rng,
    rng_state,
)
from gssc.train.selection import Epoch

if TYPE_CHECKING:
    from gssc.train.bilevel import BilevelTraining


def take_state(training: BilevelTraining) -> tuple[State, dict[str, Any]]:
    """Everything needed to go on from here, as tensors and JSON-able notes."""
    tensors = {
        "model": module_state(training.model),
        "averaged": module_state(training.averaged.model),
        "sparsifier": module_state(training.sparsifier),
        "optimizer": optimizer_state(training.optimizer),
        **(
            {"sparsifier_optimizer": optimizer_state(training.sparsifier_optimizer)}
            if training.sparsifier_optimizer
            else {}
        ),
        "consensus": {
            name: value
            for name, value in (
                ("total", training.consensus.total),
                ("kept", training.consensus.kept),
                ("soft_labels", training.soft_labels),
            )
            if value is not None
        },
        **{f"best_{group}": named for group, named in training.best.weights.items()},
    }
    notes = {
        "epoch": training.epoch,
        "steps": training.averaged.steps,
        "consolidated": training.consolidated,
        "consensus_weight": training.consensus.weight,
        "consensus_merit": training.consensus.merit,
        "pretrained": training.pretrained,
        "seconds": training.seconds,
        "epochs_since_best": training.best.epochs_since,
        "best": asdict(training.best.record) if training.best.record else None,
        "rng": rng_state(training.rng),
    }
    return tensors, notes


def restore_state(training: BilevelTraining, tensors: State, notes: dict[str, Any]) -> None:
    """Take up a state of :meth:`state`."""
    training.model.load_state_dict(tensors["model"])
    training.averaged.model.load_state_dict(tensors["averaged"])
    training.averaged.steps = notes["steps"]
    training.sparsifier.load_state_dict(tensors.get("sparsifier", {}))
    restore_optimizer(training.optimizer, tensors.get("optimizer", {}))
    if training.sparsifier_optimizer:
        restore_optimizer(training.sparsifier_optimizer, tensors.get("sparsifier_optimizer", {}))
    agreed = tensors.get("consensus", {})
    training.consensus.total, training.consensus.kept = agreed.get("total"), agreed.get("kept")
    training.consensus.weight, training.consensus.merit = notes["consensus_weight"], notes["consensus_merit"]
    training.soft_labels, training.consolidated = agreed.get("soft_labels"), notes["consolidated"]
    training.best.weights = {name[5:]: named for name, named in tensors.items() if name.startswith("best_")}
    training.best.record = Epoch(**notes["best"]) if notes["best"] else None
    training.best.epochs_since = notes["epochs_since_best"]
    training.epoch, training.pretrained, training.seconds = notes["epoch"], notes["pretrained"], notes["seconds"]
    restore_rng(training.rng, notes["rng"])

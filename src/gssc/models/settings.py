"""Settings of the models whose settings are not the arguments of their class. This module needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gssc.settings import setting


@dataclass
class GsscSettings:
    """The student, the MLP that is deployed.

    Args:
        name: name of the model.
        hidden: width of every hidden layer; 0 chooses by the data: 128 for a few thousand narrow rows, 256 otherwise.
        layers: number of hidden layers; 0 chooses by the data: one for wide rows, two for narrow ones.
        steps: gradient steps per student; 0 chooses by the data.
    """

    name: str = "gssc"
    hidden: int = setting(0, low=0, high=2**20)
    layers: int = setting(0, low=0, high=1000)
    steps: int = setting(0, low=0)


@dataclass
class STRContrastSettings:
    """STR-Contrast, the MLP that is trained and later deployed (Sec. III-C of the paper).

    Args:
        name: name of the model; other models have other settings, see ``gssc train --model NAME --help``.
        hidden: width F of every hidden layer.
        layers: number of hidden layers L; the deployed model is L + 1 matrix products.
        dropout: share of hidden units dropped in training, in steps of 1/256.
        activation: ``leaky_relu`` (released program) or ``relu`` (text).
        norm: ``batch`` normalises hidden units over the batch; ``none`` leaves batch norm out, so that training with
            several processes gives the same result as with one.
        layer_order: ``norm_first`` is batch norm, activation, dropout (released program);
            ``activation_first`` is activation, batch norm, dropout (text).
        head_norms: ``separate`` gives each of the two heads its own last batch norm, activation and dropout (released
            program), ``shared`` applies one before two linear heads (text).
        mix_at: where the two ends of an edge are mixed (Eq. 8): ``first`` pre-activation (released program), ``last``
            hidden layer (text), or ``output``, the outputs of head g. With a linear head, ``output`` is the formula of
            the text, computed for every row once instead of for every pair: much faster if pairs share rows.
        mix_by: source of beta: ``own_net`` (released program: linear, batch norm, vector), ``vector`` (text: one
            shared vector on the mixed layer, separately for both directions of an edge), ``off`` (beta = 1,
            the ablation). The released program's net gives both directions of an edge the same beta.
        mix_hidden: width of the net of ``own_net``; 256 in the released program.
        mix_floor: s in beta' = s + (1 - s) beta; the larger s, the closer the mixed point is to the neighbour.
    """

    name: Literal["str_contrast"] = "str_contrast"
    hidden: int = setting(256, low=1, high=2**20)
    layers: int = setting(2, low=1, high=1000)
    dropout: float = setting(0.5, low=0, high=0.99)
    activation: Literal["leaky_relu", "relu"] = "leaky_relu"
    norm: Literal["batch", "none"] = "batch"
    layer_order: Literal["norm_first", "activation_first"] = "norm_first"
    head_norms: Literal["separate", "shared"] = "separate"
    mix_at: Literal["first", "last", "output"] = "first"
    mix_by: Literal["own_net", "vector", "off"] = "own_net"
    mix_hidden: int = setting(64, low=1, high=2**20)
    mix_floor: float = setting(0.8, low=0, high=1)


@dataclass
class LabelSpreadingSettings:
    """Settings of label spreading.

    Args:
        name: name of the model.
        alpha: weight of the neighbours, below 1; 0 selects one by the validation score.
        max_iter: maximum number of iterations.
    """

    name: str = "label_spreading"
    alpha: float = setting(0.0, low=0, high=0.999)
    max_iter: int = setting(1000, low=1)

    def arguments(self) -> dict[str, Any]:
        """Return the settings as arguments of the class."""
        return {"alpha": self.alpha, "max_iter": self.max_iter}


def linear_settings(model: str) -> Any:
    """Return the settings of one of the linear models as a dataclass."""

    @dataclass
    class Settings:
        """Settings of a linear model.

        Args:
            name: name of the model.
            penalty: C of the logistic regression, the inverse of the penalty; 0 selects it by validation accuracy.
        """

        name: str = model
        penalty: float = setting(0.0, low=0)

        def arguments(self) -> dict[str, Any]:
            """Return the settings as arguments of the class."""
            return {"penalty": self.penalty}

    return Settings

"""Registry of the models by name. A new model is one file and one entry here."""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict, field, make_dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from gssc.errors import GsscError
from gssc.models.settings import GsscSettings, LabelSpreadingSettings, STRContrastSettings, linear_settings
from gssc.names import nearest
from gssc.settings import arguments_as_settings

if TYPE_CHECKING:
    from gssc.models.base import Recipe

# Datasets whose feature rows are divided by their sums in the papers of the models; others use ``auto``.
ROWS_BY_SUMS = ("cora", "citeseer", "coauthor-cs", "coauthor-physics")


class ModelEntry(NamedTuple):
    """Module and class of a model, a one-line summary, its paper, and how it is trained.

    ``training`` is the class that trains it and ``config`` that of all settings of a run, as ``module:class``; ``uses``
    names other models it trains. ``settings`` is the dataclass of the model's own settings, if these are not the
    arguments of its class.
    """

    module: str
    class_name: str
    summary: str
    paper: str
    training: str = "gssc.train.supervised:SupervisedTraining"
    uses: tuple[str, ...] = ()
    config: str = "gssc.config:RivalConfig"
    settings: Any = None

    def load(self) -> Any:
        """Return the class of the model."""
        return getattr(import_module(f"gssc.models.{self.module}"), self.class_name)

    @property
    def loop(self) -> str:
        """Return the module of its training."""
        return self.training.partition(":")[0]


CLOSED_FORM = "gssc.learner.closed_form:ClosedFormTraining"

MODELS = {
    "gssc": ModelEntry(
        "student",
        "Student",
        "the default learner: teachers ranked by held-out labels, pair training among them, teach a plain MLP",
        "GSSC",
        "gssc.learner.learner:LearnerTraining",
        config="gssc.learner.settings:Config",
        settings=GsscSettings,
    ),
    "gcn": ModelEntry("gcn", "GCN", "averages over neighbours, twice", "Kipf and Welling 2017, arXiv:1609.02907"),
    "gat": ModelEntry("gat", "GAT", "attends to neighbours", "Velickovic et al. 2018, arXiv:1710.10903"),
    "sage": ModelEntry(
        "sage", "GraphSAGE", "own row next to the neighbours' mean", "Hamilton et al. 2017, arXiv:1706.02216"
    ),
    "sgc": ModelEntry("sgc", "SGC", "averages first, then one linear map", "Wu et al. 2019, arXiv:1902.07153"),
    "appnp": ModelEntry(
        "appnp",
        "APPNP",
        "an MLP's predictions spread by personalised PageRank",
        "Gasteiger et al. 2019, arXiv:1810.05997",
    ),
    "dagnn": ModelEntry(
        "dagnn", "DAGNN", "an MLP's predictions, weighted per node by distance", "Liu et al. 2020, arXiv:2007.09296"
    ),
    "mlp": ModelEntry("mlp", "MLP", "labels and features only; the graph is not used", "-"),
    "graph_mlp": ModelEntry(
        "graph_mlp",
        "GraphMLP",
        "an MLP, neighbours pulled together by a contrastive loss",
        "Hu et al. 2021, arXiv:2106.04051",
    ),
    "link_dist": ModelEntry(
        "link_dist", "LinkDist", "an MLP that distils labels along edges", "Luo et al. 2021, arXiv:2106.08541"
    ),
    "str_contrast": ModelEntry(
        "str_contrast",
        "STRContrast",
        "the MLP of the paper, trained on pairs",
        "GSSC, Sec. III",
        "gssc.train.bilevel:BilevelTraining",
        config="gssc.config:ContrastConfig",
        settings=STRContrastSettings,
    ),
    "nagphormer": ModelEntry(
        "nagphormer", "NAGphormer", "a transformer over each node's hops", "Chen et al. 2023, arXiv:2206.04910"
    ),
    "sgformer": ModelEntry(
        "sgformer", "SGFormer", "one linear attention over all nodes, and a GCN", "Wu et al. 2023, arXiv:2306.10759"
    ),
    "h2gcn": ModelEntry(
        "h2gcn", "H2GCN", "own row, neighbours and two-hop neighbours kept apart", "Zhu et al. 2020, arXiv:2006.11468"
    ),
    "sign": ModelEntry(
        "sign", "SIGN", "an MLP on features averaged over several hops", "Frasca et al. 2020, arXiv:2004.11198"
    ),
    "glognn": ModelEntry(
        "glognn", "GloGNN", "every node may learn from every other, in closed form", "Li et al. 2022, arXiv:2205.07308"
    ),
    "glnn": ModelEntry(
        "glnn",
        "GLNN",
        "an MLP distilled from a GNN teacher",
        "Zhang et al. 2022, arXiv:2110.08727",
        training="gssc.train.distill:DistillTraining",
        uses=("sage",),
        config="gssc.config:DistillConfig",
    ),
    "label_spreading": ModelEntry(
        "label_spreading",
        "LabelSpreading",
        "labels alone, spread over edges (scikit-learn)",
        "Zhou et al. 2004",
        "gssc.train.spread:SpreadTraining",
        settings=LabelSpreadingSettings,
    ),
    "linear_rows": ModelEntry(
        "closed_form",
        "LinearRows",
        "logistic regression on feature rows",
        "-",
        CLOSED_FORM,
        settings=linear_settings("linear_rows"),
    ),
    "linear_spread": ModelEntry(
        "closed_form",
        "LinearSpread",
        "logistic regression on rows averaged over edges",
        "-",
        CLOSED_FORM,
        settings=linear_settings("linear_spread"),
    ),
    "linear_both": ModelEntry(
        "closed_form",
        "LinearBoth",
        "logistic regression on own and neighbours' rows",
        "-",
        CLOSED_FORM,
        settings=linear_settings("linear_both"),
    ),
    "ridge_student": ModelEntry(
        "closed_form",
        "RidgeStudent",
        "a linear map of rows, taught by the best of these three",
        "-",
        CLOSED_FORM,
        settings=linear_settings("ridge_student"),
    ),
}


def model_entry(name: str) -> ModelEntry:
    """Return the entry of a model. Raises GsscError with the closest match if there is none."""
    if name not in MODELS:
        raise GsscError(f"unknown model {name!r}; {nearest(name, MODELS)}")
    return MODELS[name]


@cache
def model_settings(name: str) -> Any:
    """Return the settings of a model as a dataclass: its name, and the arguments of its class with their defaults.

    >>> model_settings("gcn")(hidden=8).arguments()
    {'hidden': 8, 'dropout': 0.5}
    """
    entry = model_entry(name)
    if entry.settings is not None:
        return entry.settings
    kind = entry.load()
    options = [("name", str, field(default=name)), *arguments_as_settings(kind.__init__)]
    made = make_dataclass(f"{kind.__name__}Settings", options, namespace={"arguments": _arguments})
    made.__doc__ = _arguments_section(kind)
    return made


def _arguments(settings: Any) -> dict[str, Any]:
    """Return the settings as arguments of the model's class."""
    return {name: value for name, value in asdict(settings).items() if name != "name"}


def _arguments_section(kind: Any) -> str:
    """Return the docstring of a model's class, for help texts: its arguments that are settings, and its name."""
    text = re.sub(r"\n    (inputs|outputs): .*", "", inspect.cleandoc(kind.__doc__ or ""))
    return text.replace("Args:\n", "Args:\n    name: name of the model.\n", 1)


def recipe_of(name: str, dataset: str, split: str) -> Recipe | None:
    """Return the settings of a model's paper for a dataset and kind of split, such as ``fixed`` for ``fixed-3``.

    None for a model without a recipe.
    """
    kind, family = model_entry(name).load(), re.sub(r"-\d+$", "", split)
    recipes: dict[str, Recipe] = getattr(kind, "recipes", {})
    found = next((recipes[key] for key in (f"{dataset}/{family}", dataset) if key in recipes), None)
    recipe: Recipe | None = found or getattr(kind, "recipe", None)
    if recipe is not None and recipe.normalize == "auto" and dataset in ROWS_BY_SUMS:
        return replace(recipe, normalize="row")
    return recipe

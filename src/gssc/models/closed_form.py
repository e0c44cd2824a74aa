"""Linear models that are fitted in seconds: on rows, spread rows, own and neighbours' rows; and one taught by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gssc.models.base import Recipe


class ClosedForm:
    """What linear models have in common.

    Attributes:
        inputs: what the regression is fitted to: ``rows``, ``spread`` (averaged over edges), ``both`` (own rows beside
            the averages over neighbours and over their neighbours); with several, validation nodes choose.
        student: whether a linear map of the rows alone then learns the opinion of the regression.
    """

    inputs: ClassVar[tuple[str, ...]] = ("rows",)
    student: ClassVar[bool] = False
    passes_messages: ClassVar[bool] = False
    learns_from_edges: ClassVar[bool] = True
    recipe: ClassVar[Recipe] = Recipe()
    recipes: ClassVar[dict[str, Recipe]] = {}


def _settings(model: str) -> Any:
    @dataclass
    class Settings:
        """Settings of a linear model.

        Args:
            name: name of the model.
            penalty: C of the logistic regression, the inverse of the penalty; 0 lets validation nodes choose.
        """

        name: str = model
        penalty: float = 0.0

        def arguments(self) -> dict[str, Any]:
            """As arguments of the class."""
            return {"penalty": self.penalty}

    return Settings


class LinearRows(ClosedForm):
    """Logistic regression on feature rows; the graph is not used."""

    learns_from_edges: ClassVar[bool] = False
    Settings = _settings("linear_rows")


class LinearSpread(ClosedForm):
    r"""Logistic regression on rows averaged over the graph, :math:`Z \leftarrow 0.9\, W Z + 0.1\, X`, ten times."""

    inputs: ClassVar[tuple[str, ...]] = ("spread",)
    passes_messages: ClassVar[bool] = True
    Settings = _settings("linear_spread")


class LinearBoth(ClosedForm):
    """Logistic regression on each node's own row beside the averages over neighbours and over their neighbours."""

    inputs: ClassVar[tuple[str, ...]] = ("both",)
    passes_messages: ClassVar[bool] = True
    Settings = _settings("linear_both")


class RidgeStudent(ClosedForm):
    """Ridge regression from feature rows to the opinion of the best of the three: needs no graph to predict."""

    inputs: ClassVar[tuple[str, ...]] = ("rows", "spread", "both")
    student: ClassVar[bool] = True
    Settings = _settings("ridge_student")

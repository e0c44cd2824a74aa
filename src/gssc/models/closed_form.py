"""Linear models fitted in seconds: on rows, on averaged rows, on own and neighbours' rows; a student of the best."""

from __future__ import annotations

from typing import ClassVar

from gssc.models.base import Recipe


class ClosedForm:
    """Base class of the linear models.

    Attributes:
        inputs: candidate inputs of the regression: ``rows``, ``spread`` (averaged over edges), ``both`` (own rows next
            to the averages over neighbours and over their neighbours); validation accuracy selects among several.
        student: whether a linear map of the rows alone is then fitted to the predictions of the regression.
    """

    inputs: ClassVar[tuple[str, ...]] = ("rows",)
    student: ClassVar[bool] = False
    passes_messages: ClassVar[bool] = False
    learns_from_edges: ClassVar[bool] = True
    recipe: ClassVar[Recipe] = Recipe()
    recipes: ClassVar[dict[str, Recipe]] = {}


class LinearRows(ClosedForm):
    """Logistic regression on feature rows; the graph is not used."""

    learns_from_edges: ClassVar[bool] = False


class LinearSpread(ClosedForm):
    r"""Logistic regression on rows averaged over the graph, :math:`Z \leftarrow 0.9\, W Z + 0.1\, X`, ten times."""

    inputs: ClassVar[tuple[str, ...]] = ("spread",)
    passes_messages: ClassVar[bool] = True


class LinearBoth(ClosedForm):
    """Logistic regression on each node's own row next to the averages over neighbours and over their neighbours."""

    inputs: ClassVar[tuple[str, ...]] = ("both",)
    passes_messages: ClassVar[bool] = True


class RidgeStudent(ClosedForm):
    """Ridge regression from feature rows to the predictions of the best of the three; predicts without the graph."""

    inputs: ClassVar[tuple[str, ...]] = ("rows", "spread", "both")
    student: ClassVar[bool] = True

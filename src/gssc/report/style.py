"""Light and dark style of the plots, and the colours they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from gssc.errors import GsscError
from gssc.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style = Literal["light", "dark"]

# Ordered so that neighbours in the list differ in lightness as well as in hue.
_COLOURS = {
    "light": [
        "#2563a8",
        "#d9730d",
        "#2e8b57",
        "#b8336a",
        "#6d4fc2",
        "#8a6d1f",
        "#158f9c",
        "#7a7a7a",
        "#c0392b",
        "#5c7d0e",
    ],
    "dark": [
        "#6ea8e6",
        "#f2a154",
        "#6cc792",
        "#ec7fa9",
        "#a994f0",
        "#d3b75c",
        "#5cc6d0",
        "#b0b0b0",
        "#f08a80",
        "#b5d46a",
    ],
}
_INK = {"light": ("#1f2328", "#5b636d", "#d9dde2", "#ffffff"), "dark": ("#e6e8eb", "#a3abb5", "#3a4048", "#16191d")}


def style_settings(style: Style) -> dict[str, Any]:
    """Return matplotlib's settings for a style, as :func:`matplotlib.rc_context` takes them."""
    if style not in _INK:
        raise GsscError(f"style is {style!r}; it must be light or dark")
    cycler = require("cycler", extra="report").cycler
    ink, soft, line, paper = _INK[style]
    return {
        "axes.prop_cycle": cycler(color=_COLOURS[style]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.labelsize": 10,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.edgecolor": line,
        "axes.facecolor": paper,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "figure.facecolor": paper,
        "figure.constrained_layout.use": True,
        "grid.color": line,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 1.6,
        "savefig.dpi": 150,
        "savefig.facecolor": paper,
        "text.color": ink,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
    }


@contextmanager
def plot_style(style: Style = "light") -> Iterator[None]:
    """Draw in one of the two styles within the block; matplotlib's settings are restored afterwards.

    >>> with plot_style("dark"):
    ...     soft_colour()
    '#a3abb5'
    """
    with require("matplotlib", extra="report").rc_context(style_settings(style)):
        yield


def colours(count: int) -> list[Any]:
    """Return this many different colours: those of the style, or evenly spaced hues if it has too few."""
    matplotlib = require("matplotlib", extra="report")
    own = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    if count <= len(own):
        return list(own[:count])
    bright = 0.2 if _is_dark(matplotlib.rcParams["axes.facecolor"]) else 0.0
    # Neighbouring hues differ in lightness as well.
    return [hls_to_rgb(place / count, 0.4 + bright + 0.1 * (place % 2), 0.65) for place in range(count)]


def _is_dark(colour: Any) -> bool:
    red, green, blue = require("matplotlib.colors", extra="report").to_rgb(colour)
    return bool(0.3 * red + 0.6 * green + 0.1 * blue < 0.5)


def soft_colour() -> str:
    """Return the colour of less prominent parts: reference lines, notes, points without a label."""
    return str(require("matplotlib", extra="report").rcParams["xtick.color"])


def new_axes(rows: int = 1, height: float = 4.0, width: float = 6.4, shares: Sequence[float] = ()) -> list[Axes]:
    """Return the axes of a new pyplot figure, one above the other with a common horizontal axis."""
    pyplot = require("matplotlib.pyplot", extra="report")
    options = {"height_ratios": shares} if shares else None
    _, axes = pyplot.subplots(rows, 1, sharex=True, squeeze=False, figsize=(width, height), gridspec_kw=options)
    return list(axes[:, 0])


def shorten(name: str, most: int = 22) -> str:
    """Return a name cut to a length that fits beside an axis.

    >>> shorten("a_name_that_is_far_too_long_for_an_axis")
    'a_name_that_is_far_to…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"

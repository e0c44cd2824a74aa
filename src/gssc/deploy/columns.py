"""Find the feature columns and the id column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gssc.errors import GsscError
from gssc.names import counted, nearest
from gssc.text_tables import ID_NAMES, LABEL_NAMES

ID_COLUMNS = (*ID_NAMES, "")  # pandas leaves its index unnamed
OTHER_COLUMNS = (*LABEL_NAMES, "split")


def chosen_columns(
    path: Path, header: Sequence[str], wanted: Sequence[str] | None, width: int | None, id_name: str | None = None
) -> list[int]:
    """Return which columns of a table are features. Raises GsscError if their number does not fit the model."""
    try:
        columns = feature_columns(header, wanted, id_name)
    except ValueError as error:
        raise GsscError(f"{path}: {error}") from None
    if width is not None and len(columns) != width:
        raise GsscError(f"{path}: {wrong_width(len(columns), width, wanted)}")
    return columns


def feature_columns(header: Sequence[str], wanted: Sequence[str] | None, id_name: str | None = None) -> list[int]:
    """Return which columns of a table are features: the wanted ones, or all that are not known to be something else.

    >>> feature_columns(["id", "b", "a", "label"], ["a", "b"])
    [2, 1]
    >>> feature_columns(["id", "b", "a", "label"], None)
    [1, 2]
    """
    if wanted is None:
        known = {*ID_COLUMNS, *OTHER_COLUMNS}
        return [index for index, name in enumerate(header) if name.lower() not in known and name != id_name]
    # Readers of text tables strip spaces from names, but the model may have been trained with them.
    place = {name.strip(): index for index, name in enumerate(header)} | {
        name: index for index, name in enumerate(header)
    }
    wanted = [name if name in place else name.strip() for name in wanted]
    missing = [name for name in wanted if name not in place]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"the model needs {len(wanted)} feature columns; the table lacks {missing[0]!r}{others}")
    return [place[name] for name in wanted]


def find_id_column(header: Sequence[str], wanted: Sequence[str] | None = None, given: str | None = None) -> int | None:
    """Return which column of a table holds the ids, if any: the one that `gssc data import` would take.

    That is the column the user names, else one with a common name (an unnamed column only if there is no other), else
    the first, if it is known not to be a feature, label or split.

    >>> find_id_column(["", "load", "ID"]), find_id_column(["machine", "load"], wanted=["load"])
    (2, 0)
    >>> find_id_column(["machine", "load"]), find_id_column(["label", "load"], wanted=["load"])
    (None, None)
    """
    if given is not None:
        if given not in header:
            raise GsscError(f"the table has no id column {given!r}: {nearest(given, header)}")
        return header.index(given)
    names = [name.lower() for name in header]
    common = next((names.index(name) for name in ID_COLUMNS if name in names), None)
    if common is not None or wanted is None or not header:
        return common
    features = {*(name.strip() for name in wanted), *wanted}
    return None if header[0] in features or names[0] in OTHER_COLUMNS else 0


def wrong_width(found: int, width: int, feature_names: Sequence[str] | None) -> str:
    """Return the error for rows with too many or too few features, and what to do.

    >>> wrong_width(3, 2, ["load", "heat"])
    'rows have 3 features, but the model was trained on 2: give the columns it was trained on, in order (load, heat)'
    """
    names = list(feature_names or ())
    shown = ", ".join(names[:5] + ["..."] * (len(names) > 5))
    which = f" ({shown})" if names else ""
    return (
        f"rows have {counted(found, 'feature')}, but the model was trained on {width}: "
        f"give the columns it was trained on, in order{which}"
    )

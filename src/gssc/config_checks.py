"""Whether a dataclass of settings holds what its annotations promise: known names, choices, types."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gssc.errors import GsscError
from gssc.names import nearest

# What a value of each type may be, and what an error calls it. NumPy's numbers are numbers, too.
KINDS: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
    NoneType: (NoneType, "None"),
}


def check_section(name: str, section: Any, given: Any) -> None:
    """Refuse unknown names and values of the wrong type in a section that was set in Python."""
    if not isinstance(given, section):
        raise GsscError(f"settings section {name!r} must be a {section.__name__}, not {given!r}")
    refuse_unknown(f"{name}.", vars(given), section.__dataclass_fields__)
    for key, hint in _hints(section).items():
        value, choices = getattr(given, key), choices_of(section, key)
        types = [kind for kind in (hint, *get_args(hint)) if kind in KINDS]
        if any(_is_of(kind, value) for kind in types):
            continue
        if not choices:
            wanted = " or ".join(KINDS[kind][1] for kind in types)
            raise GsscError(f"{name}.{key} is {value!r}; it must be {wanted}")
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise no_choice(f"{name}.{key}", value, choices)


def _is_of(kind: type, value: Any) -> bool:
    if isinstance(value, bool):  # a whole number to Python
        return kind is bool
    return isinstance(value, KINDS[kind][0])


def refuse_unknown(prefix: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first name that is not known, and say which is nearest."""
    for name in given:
        if name not in known:
            what = f"setting {prefix}{name}" if prefix else f"settings section {name!r}"
            raise GsscError(f"unknown {what}; {nearest(name, known)}")


def no_choice(place: str, value: Any, choices: Iterable[Any]) -> GsscError:
    """The error of a value that is none of the choices."""
    return GsscError(f"{place} is {value!r}; {nearest(str(value), map(str, choices))}")


@cache
def _hints(section: Any) -> dict[str, Any]:
    return get_type_hints(section)


def choices_of(section: Any, name: str) -> tuple[Any, ...]:
    """The values a setting may have, if they are few."""
    hint = _hints(section)[name]
    kinds = [hint, *get_args(hint)]
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def converted(place: str, section: Any, name: str, value: Any) -> Any:
    """A value as YAML or a command line gives it, as the type its setting wants.

    Text that is a number becomes one (YAML takes ``5e-4`` for text), as does a whole number where any will do. What
    cannot be converted is refused by name.
    """
    choices, hint = choices_of(section, name), _hints(section)[name]
    types = [kind for kind in (hint, *get_args(hint)) if kind in KINDS]
    if choices:
        numbers = [choice for choice in choices if str(choice) == value]
        value = numbers[0] if numbers else value
        if (value is None and NoneType in types) or value in choices:
            return value
        raise no_choice(place, value, choices)
    if isinstance(value, str) and str not in types:
        value = _number(value)
    if float in types and _is_of(int, value):
        return float(value)
    if not any(_is_of(kind, value) for kind in types):
        wanted = " or ".join(KINDS[kind][1] for kind in types)
        raise GsscError(f"{place} is {value!r}; it must be {wanted}")
    return value.item() if hasattr(value, "item") else value


def _number(text: str) -> Any:
    """The number or truth value that a text stands for, or the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

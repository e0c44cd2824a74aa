"""Settings as dataclasses: types, choices and bounds are declared on the field and checked by name.

A section of settings is a dataclass defined next to what it configures::

    @dataclass
    class DropEdgeSettings:
        name: str = "drop_edge"
        keep: float = setting(0.8, low=0.01, high=1)

Types and choices (``Literal``) are those of the annotations, bounds those of :func:`setting`; help texts are the
``Args`` of the docstring.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import yaml

from gssc.errors import GsscError
from gssc.files import read_bytes
from gssc.names import nearest

Settings = dict[str, Any]
LONGEST_SETTINGS = 100_000  # bytes; PyYAML needs a minute for a few megabytes

# The class that values of each type must have, which includes NumPy's numbers, and its name in errors.
KINDS: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
    NoneType: (NoneType, "None"),
}


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a number.

    They are declared on a field with :func:`setting`, or on an argument of a model: ``hidden: Count = 64``.
    """

    low: float = -math.inf
    high: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high  # False for NaN

    def __str__(self) -> str:
        low, high = (f"{int(end):,}" if float(end).is_integer() else f"{end:g}" for end in (self.low, self.high))
        return f"at least {low}" if self.high == math.inf else f"between {low} and {high}"


# Types of arguments with their bounds, see :func:`arguments_as_settings`.
Count = Annotated[int, Bounds(low=1, high=2**20)]
WholeNumber = Annotated[int, Bounds(low=0, high=2**20)]
Share = Annotated[float, Bounds(low=0, high=1)]
Dropout = Annotated[float, Bounds(low=0, high=0.99)]
NonNegative = Annotated[float, Bounds(low=0)]
Positive = Annotated[float, Bounds(low=1e-6)]


def setting(default: Any, *, low: float = -math.inf, high: float = math.inf, help: str = "") -> Any:
    """Return a field of a section, with its bounds; ``help`` is for sections whose docstring has no ``Args``."""
    return field(default=default, metadata={"bounds": Bounds(low, high), "help": help})


def meanings(section: Any) -> dict[str, str]:
    """Return the meaning of each field, from the ``Args`` of the docstring, each on one line."""
    text = inspect.cleandoc(section.__doc__ or "").partition("Args:\n")[2]
    found = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def inherit_meanings(section: Any) -> None:
    """Put the ``Args`` of the section that this one extends before its own, so that help has the meaning of each.

    ``Args`` must come last in the docstring.
    """
    summary = inspect.cleandoc(section.__doc__ or "").partition("Args:\n")[0].rstrip()
    known = {**meanings(section.__mro__[1]), **meanings(section)}
    section.__doc__ = f"{summary}\n\nArgs:\n" + "".join(f"    {name}: {text}\n" for name, text in known.items())


def bounds_of(section: Any, name: str) -> Bounds:
    """Return the bounds of a field."""
    found: Bounds = section.__dataclass_fields__[name].metadata.get("bounds", Bounds())
    return found


def arguments_as_settings(function: Any) -> list[tuple[str, Any, Any]]:
    """Return the arguments of a function that have a default, as fields of a section: name, type, field."""
    annotated, plain = get_type_hints(function, include_extras=True), get_type_hints(function)
    found = []
    for name, argument in inspect.signature(function).parameters.items():
        if argument.default is not argument.empty:
            bounds = next((part for part in _parts(annotated[name]) if isinstance(part, Bounds)), Bounds())
            found.append((name, plain[name], setting(argument.default, low=bounds.low, high=bounds.high)))
    return found


def check_section(name: str, section: Any, given: Any) -> None:
    """Refuse unknown names and values of the wrong type or size in a section that was set in Python."""
    if not isinstance(given, section):
        raise GsscError(f"settings section {name!r} must be a {section.__name__}, not {given!r}")
    refuse_unknown(f"{name}.", vars(given), section.__dataclass_fields__)
    for option in fields(section):
        _check(f"{name}.{option.name}", section, option.name, getattr(given, option.name))


def _check(place: str, section: Any, name: str, value: Any) -> None:
    if is_dataclass(value):  # a section within a section
        check_section(place, type(value), value)
        return
    choices, types = choices_of(section, name), _types(section, name)
    if not any(_is_of(kind, value) for kind in types):
        if not choices:
            wanted = " or ".join(KINDS[kind][1] for kind in types)
            raise GsscError(f"{place} is {value!r}; it must be {wanted}")
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise no_choice(place, value, choices)
    bounds = bounds_of(section, name)
    if _is_of(float, value) and value not in bounds:
        raise GsscError(f"{place} is {value}; it must be {bounds}")


def parse_section(name: str, defaults: Any, values: Settings) -> Any:
    """Return the defaults with these values, each converted to the type of its field; unknown names are refused."""
    section = type(defaults)
    refuse_unknown(f"{name}.", values, section.__dataclass_fields__)
    return replace(defaults, **{key: _converted(f"{name}.{key}", section, key, value) for key, value in values.items()})


def _converted(place: str, section: Any, name: str, value: Any) -> Any:
    """Return a value from YAML or the command line as the type of its setting. Raises GsscError that names the setting.

    Text that is a number becomes one (YAML reads ``5e-4`` as text), and an int becomes a float if the setting is one.
    """
    choices, types = choices_of(section, name), _types(section, name)
    if choices:
        value = next((choice for choice in choices if str(choice) == value), value)
    elif isinstance(value, str) and str not in types:
        value = _number(value)
    if float in types and _is_of(int, value):
        value = float(value)
    value = value.item() if hasattr(value, "item") else value
    _check(place, section, name, value)
    return value


def _number(text: str) -> Any:
    """Return the number or truth value that a text stands for, or the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_of(kind: type, value: Any) -> bool:
    if isinstance(value, bool):  # a subclass of int
        return kind is bool
    return isinstance(value, KINDS[kind][0])


def refuse_unknown(prefix: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first name that is not known, with the closest match."""
    for name in given:
        if name not in known:
            what = f"setting {prefix}{name}" if prefix else f"settings section {name!r}"
            raise GsscError(f"unknown {what}; {nearest(name, known)}")


def no_choice(place: str, value: Any, choices: Iterable[Any]) -> GsscError:
    """Return the error of a value that is none of the choices."""
    return GsscError(f"{place} is {value!r}; {nearest(str(value), map(str, choices))}")


@cache
def _hints(section: Any) -> dict[str, Any]:
    return get_type_hints(section)


@cache
def _parts(hint: Any) -> list[Any]:
    """Return a type, the alternatives in it, and what they are annotated with."""
    found = [hint]
    for part in found:  # the list grows during the loop
        found += get_args(part) if get_origin(part) is not Literal else ()
    return found


def _types(section: Any, name: str) -> list[type]:
    return [part for part in _parts(_hints(section)[name]) if isinstance(part, type) and part in KINDS]


def choices_of(section: Any, name: str) -> tuple[Any, ...]:
    """Return the values a setting may have, if they are few."""
    return next((get_args(kind) for kind in _parts(_hints(section)[name]) if get_origin(kind) is Literal), ())


def read_settings(path: str | Path) -> Settings:
    """Read settings from a YAML file, such as the config.yaml of a run."""
    try:
        text = read_bytes(path, most=LONGEST_SETTINGS).decode()
    except FileNotFoundError:
        raise GsscError(f"cannot read settings from {path}: there is no such file") from None
    except UnicodeDecodeError:
        raise GsscError(f"cannot read settings from {path}: it is not UTF-8 text") from None
    return parse_yaml(text, str(path))


class _SettingsLoader(yaml.SafeLoader):
    """YAML without references and numbers of any length, which settings do not need and malicious files exploit."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse references, with which a few lines stand for gigabytes."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"references such as *{event.anchor} are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        """Refuse whole numbers of more than 64 bits, which cannot be a setting and may be too long to print."""
        value = super().construct_yaml_int(node) if len(node.value) < 100 else 2**64
        if abs(value) >= 2**64:
            raise yaml.constructor.ConstructorError(None, None, "a number is too long", node.start_mark)
        return value


_SettingsLoader.add_constructor("tag:yaml.org,2002:int", _SettingsLoader.construct_yaml_int)


def parse_yaml(text: str, where: str) -> Settings:
    """Parse YAML that must be a mapping."""
    try:
        content = yaml.load(text, _SettingsLoader)
    except RecursionError:
        raise GsscError(f"{where} is not valid YAML: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise GsscError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise GsscError(f"{where} holds no settings: it must be YAML with sections such as model: and train:")
    return content

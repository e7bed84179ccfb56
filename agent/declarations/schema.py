"""Strict validation of an action's arguments against its declaration, a frozen dataclass.

Fields are int, str, bool, another dataclass, or a tuple of those; limits stand in `Annotated`.
Nothing is coerced: a bool is no int, a number is no text, an unknown key is an error.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from agent.exceptions import InvalidArguments

__all__ = ["Between", "Declaration", "InvalidArguments", "Lock", "Matching", "describe", "dump", "parse"]

LONGEST_TEXT = 4096
LONGEST_LIST = 256


class Lock(StrEnum):
    """How much of a site an action needs for itself, least first."""

    NONE = "none"
    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    MUTATING = "mutating"

    def covers(self, needed: "Lock") -> bool:
        """Say whether who holds this lock may do what needs the other."""
        ranks = list(Lock)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True)
class Between:
    """Limits of a whole number, both included."""

    least: int
    most: int


@dataclass(frozen=True)
class Matching:
    """A text must match the whole pattern; `hint` is what a person is told otherwise."""

    pattern: str
    hint: str
    longest: int = LONGEST_TEXT


class Declaration:
    """Base of every action's declaration; the class variables say how the agent treats it."""

    action: ClassVar[str]
    lock: ClassVar[Lock] = Lock.NONE
    safe_to_kill: ClassVar[bool] = False
    needs_root: ClassVar[bool] = False
    default_deadline_seconds: ClassVar[int] = 600


Declared = TypeVar("Declared")


def parse(declaration: type[Declared], mapping: Mapping[str, object]) -> Declared:
    """Make the declaration's value from plain JSON data, or raise InvalidArguments naming the key."""
    return _dataclass(declaration, mapping, "")


def dump(declared: object) -> dict[str, Any]:
    """Give a declared value as plain JSON data, tuples as lists, such that `parse` gives it back."""
    if not dataclasses.is_dataclass(declared) or isinstance(declared, type):
        raise TypeError("only a declaration's value can be dumped")
    return {field.name: _plain(getattr(declared, field.name)) for field in dataclasses.fields(declared)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dump(value) if dataclasses.is_dataclass(value) else value


def _dataclass(declaration: type[Declared], value: object, where: str) -> Declared:
    if not isinstance(value, Mapping):
        raise InvalidArguments(f"{where or 'arguments'}: give an object with named values")
    fields = {field.name: field for field in dataclasses.fields(declaration)}  # type: ignore[arg-type]  # any dataclass
    prefix = f"{where}." if where else ""
    for key in value:
        if key not in fields:
            raise InvalidArguments(f"{prefix}{_shown(key)}: unknown key, leave it out")
    types = get_type_hints(declaration, include_extras=True)
    given: dict[str, object] = {}
    for name, field in fields.items():
        if name in value:
            given[name] = _value(types[name], value[name], prefix + name)
        elif field.default is dataclasses.MISSING:
            raise InvalidArguments(f"{prefix}{name}: missing, give a value")
    return declaration(**given)


def _value(annotation: Any, value: object, where: str) -> object:
    limits: tuple[object, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        limits = tuple(extras)
    if get_origin(annotation) is tuple:
        return _tuple(get_args(annotation)[0], value, where)
    if dataclasses.is_dataclass(annotation):
        return _dataclass(annotation, value, where)  # type: ignore[arg-type]  # an annotation is a type
    if type(value) is not annotation:
        raise InvalidArguments(f"{where}: give {_NAMES[annotation]}")
    if isinstance(value, str):
        _check_text(value, limits, where)
    elif not isinstance(value, bool):
        _check_number(value, limits, where)
    return value


_NAMES: dict[object, str] = {int: "a whole number", str: "a text", bool: "true or false"}


def _tuple(inner: Any, value: object, where: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidArguments(f"{where}: give a list")
    if len(value) > LONGEST_LIST:
        raise InvalidArguments(f"{where}: too long, give at most {LONGEST_LIST} items")
    return tuple(_value(inner, item, f"{where}[{index}]") for index, item in enumerate(value))


def _check_text(text: str, limits: tuple[object, ...], where: str) -> None:
    if "\0" in text:
        raise InvalidArguments(f"{where}: has a NUL character, leave it out")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidArguments(f"{where}: has half a character (lone surrogate), leave it out")
    matching = [limit for limit in limits if isinstance(limit, Matching)]
    longest = min([limit.longest for limit in matching], default=LONGEST_TEXT)
    if len(text) > longest:
        raise InvalidArguments(f"{where}: too long, give at most {longest} characters")
    for limit in matching:
        if not re.fullmatch(limit.pattern, text):
            raise InvalidArguments(f"{where}: {_shown(text)} does not fit, give {limit.hint}")


def _check_number(number: object, limits: tuple[object, ...], where: str) -> None:
    for limit in limits:
        if isinstance(limit, Between) and isinstance(number, int) and not limit.least <= number <= limit.most:
            raise InvalidArguments(f"{where}: give a number from {limit.least} to {limit.most}")


def _shown(text: object) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def describe(declaration: type[Declaration]) -> dict[str, Any]:
    """Give a declaration as plain data: what the agent guarantees, and each argument's type by name."""
    types = get_type_hints(declaration)
    fields = dataclasses.fields(declaration)  # type: ignore[arg-type]  # every declaration is a dataclass
    return {
        "action": declaration.action,
        "lock": str(declaration.lock),
        "safe_to_kill": declaration.safe_to_kill,
        "needs_root": declaration.needs_root,
        "default_deadline_seconds": declaration.default_deadline_seconds,
        "arguments": {field.name: _type_name(types[field.name]) for field in fields},
    }


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is tuple:
        return f"list of {_type_name(get_args(annotation)[0])}"
    return str(annotation.__name__)

"""Data from outside, made plain JSON of a stated size."""

import json
from collections.abc import Collection, Mapping, Sized
from functools import lru_cache, partial
from itertools import islice

from audit import masking
from audit.plain_text import TEXT_LIMIT, UNPRINTABLE, clean_text, guarded

DATA_LIMIT = 64_000
_DEEPEST = 12
_LONGEST_KEY = 200
_WIDEST = 2**63
# What counts as a short record.
_FEW = 12
_LONGEST_SHORT = 100

_CUT = object()
_BROKEN = object()
# What a container's own signs and the marker of what was left out of it cost at most.
_CONTAINER_COST = 60
_LEAST_FOR_TEXT = 40


def clean_data(value: object, limit: int = DATA_LIMIT) -> object:
    """Give the value as plain JSON data whose ASCII text is at most `limit` bytes long. Never raises.

    NaN, infinities and integers beyond 64 bits become text, bytes are decoded, keys become text, sets
    become lists, anything unknown becomes its text. What does not fit, or lies too deep, gives way to a
    marker. The value of a key with a secret's name is masked, whatever it is.
    """
    short = _short_record(value, limit)
    if short is not None:
        return short
    cleaned = _Walk(limit).item(value, 0)
    return None if cleaned is _CUT else cleaned


def _short_record(value: object, limit: int) -> dict[str, object] | None:
    """Give a flat record of a few plain values cleaned, as the walk would; None for anything else.

    Most of what the panel itself tells of is such a record, several times for every job.
    """
    if type(value) is not dict or len(value) > _FEW or limit < _FEW * _LONGEST_SHORT * 4:
        return None
    cleaned: dict[str, object] = {}
    for key, item in value.items():
        if type(key) is not str or not _is_plain_key(key):
            return None
        if type(item) is str and len(item) <= _LONGEST_SHORT and item.isascii() and item.isprintable():
            cleaned[key] = clean_text(item)
        elif item is None or type(item) is bool or (type(item) is int and -_WIDEST <= item < _WIDEST):
            cleaned[key] = item
        else:
            return None
    return cleaned


class _Walk:
    """One pass over a value, with the bytes that are left to spend on it."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def item(self, value: object, depth: int) -> object:
        """Give one cleaned value, or _CUT where nothing is left for it."""
        cleaned = guarded(partial(self._value, value, depth), _BROKEN)
        return self._text(UNPRINTABLE) if cleaned is _BROKEN else cleaned

    def _value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return self._afford(value)
        if isinstance(value, int):
            return self._integer(int.__int__(value))
        if isinstance(value, float):
            number = float.__float__(value)
            return self._afford(number if number - number == 0 else str(number))
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._text(value)
        if depth >= _DEEPEST:
            return self._text("[too deep]")
        if not self._spend(_CONTAINER_COST):
            return _CUT
        return self._mapping(value, depth) if isinstance(value, Mapping) else self._list(value, depth)

    def _integer(self, number: int) -> object:
        return self._afford(number) if -_WIDEST <= number < _WIDEST else self._text(hex(number))

    def _text(self, value: object) -> object:
        if self._left < _LEAST_FOR_TEXT:
            return _CUT
        text = clean_text(value, min(TEXT_LIMIT, self._left))
        if len(json.dumps(text)) + 2 > self._left:
            # A character costs twelve bytes at most: two escapes of six.
            text = clean_text(text, (self._left - 4) // 12)
        return self._afford(text)

    def _list(self, value: Collection[object], depth: int) -> list[object]:
        nothing: list[object] = []
        cleaned: list[object] = []
        for item in guarded(lambda: list(islice(value, self._left)), nothing):
            inner = self.item(item, depth + 1)
            if inner is _CUT:
                break
            cleaned.append(inner)
        left_out = _size(value) - len(cleaned)
        return [*cleaned, f"[cut: {left_out} more]"] if left_out > 0 else cleaned

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, object]:
        nothing: list[tuple[object, object]] = []
        cleaned: dict[str, object] = {}
        for key, item in guarded(lambda: [(k, v) for k, v in islice(value.items(), self._left)], nothing):
            name = self._name(key, cleaned)
            inner = _CUT if name is None else self._named(name, item, depth + 1)
            if name is None or inner is _CUT:
                break
            cleaned[name] = inner
        left_out = _size(value) - len(cleaned)
        return {**cleaned, "[cut]": f"{left_out} more"} if left_out > 0 else cleaned

    def _name(self, key: object, taken: Mapping[str, object]) -> str | None:
        name = clean_text(key, _LONGEST_KEY)
        while name in taken:
            name += "~"
        return name if self._spend(len(json.dumps(name)) + 2) else None

    def _named(self, name: str, value: object, depth: int) -> object:
        hides = _is_secret(name) and value is not None and not isinstance(value, bool)
        return self._afford(masking.MASK) if hides else self.item(value, depth)

    def _afford(self, plain: object) -> object:
        return plain if self._spend(len(json.dumps(plain)) + 2) else _CUT

    def _spend(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True


@lru_cache(maxsize=1024)
def _is_plain_key(key: str) -> bool:
    plain = len(key) <= _LONGEST_SHORT and key.isascii() and key.isprintable()
    return plain and clean_text(key, _LONGEST_KEY) == key and not _is_secret(key)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return masking.SECRET_NAME.search(name) is not None


def _size(value: Sized) -> int:
    return guarded(lambda: len(value), 0)

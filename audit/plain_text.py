"""Text from outside, made storable on every database, visible on every page, and short."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from audit import masking

TEXT_LIMIT = 8_000
UNPRINTABLE = "[unprintable]"
# Text behind the limit is looked at this far, so that a secret which straddles the limit is found whole.
_MARGIN = 4_096

_T = TypeVar("_T")

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links and other strings, with their end
    r"|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# Controls but \n and \t; separators that end a line unseen; marks that turn or hide text; surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    "\ufeff\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean_text(value: object, limit: int = TEXT_LIMIT) -> str:
    r"""Give the value as text of at most `limit` characters. Never raises.

    ANSI sequences are removed, secrets masked, control characters, text-direction marks and lone surrogates
    written as escapes; \n and \t stay, \r\n becomes \n. A marker at the end, inside the limit, says how much
    was cut off.
    """
    if type(value) is str and len(value) <= limit and value.isascii() and value.isprintable():
        # Nothing to escape and nothing to cut: what most of our own texts are.
        text = masking.mask(value)
        return text if len(text) <= limit else _cut(text, len(text), limit)
    text, unread = _text_of(value, max(limit, 0) + _MARGIN)
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    text = masking.mask(_INVISIBLE.sub(_escape, text))
    if len(text) <= limit and not unread:
        return text
    return _cut(text, len(text) + unread, limit)


def mask_secrets(text: object) -> str:
    """Give the text with secrets replaced by "***" and nothing else changed. Never raises."""
    return masking.mask(_text_of(text, None)[0])


def guarded(read: Callable[[], _T], otherwise: _T) -> _T:
    """Give what `read` gives, or `otherwise` where it raises.

    Only for what runs code of a foreign object (its __str__, its iterator), which may raise anything.
    """
    with suppress(Exception):
        return read()
    return otherwise


def _text_of(value: object, most: int | None) -> tuple[str, int]:
    """Give the value's text, at most `most` characters of it, and how many more there are."""
    return guarded(partial(_read, value, most), (UNPRINTABLE, 0))


def _read(value: object, most: int | None) -> tuple[str, int]:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = memoryview(value).cast("B")
        head = raw[:most]
        return head.tobytes().decode("utf-8", "backslashreplace"), len(raw) - len(head)
    # str.__str__ and not str(): a subclass of str may say something else there, or raise.
    text = str.__str__(value if isinstance(value, str) else str(value))
    return text[:most], len(text) - len(text[:most])


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, total: int, limit: int) -> str:
    # On a line of its own, so that it is never taken for the value of a "password=" before it.
    longest_marker = len(_marker(total, total))
    if limit <= longest_marker:
        return text[: max(limit, 0)]
    kept = min(len(text), limit - longest_marker)
    return text[:kept] + _marker(total - kept, total)


def _marker(cut: int, total: int) -> str:
    return f"\n[cut: {cut} of {total} characters]"

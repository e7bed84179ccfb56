"""The keys that sign the trail, in a file of their own that the database never holds.

One key per line, `<key id> <hexadecimal key>`; lines that begin with # are remarks. The last key signs, all
of them verify, so that a rotation is one more line.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from audit.exceptions import KeyFileRefused

SHORTEST_KEY = 32
_FEWEST_DIFFERENT_BYTES = 8
_REMEDY = "Run hosting-setup to make the keys of this installation, or restore the file from your safe copy."


@dataclass(frozen=True)
class KeyRing:
    """All keys by their id, and the id of the one that signs now."""

    keys: Mapping[str, bytes]
    current: str


def load(path: Path | None = None) -> KeyRing:
    """Read the key file, the settings' one by default. Raises KeyFileRefused with what to do."""
    path = path or Path(settings.CHP_AUDIT_KEY_FILE)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except OSError as error:
        raise KeyFileRefused(
            f"CHP_AUDIT_KEY_FILE: cannot read {path}: {error.strerror}. {_REMEDY}"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFileRefused(f"CHP_AUDIT_KEY_FILE: {path} is open to others. Run: chmod 600 {path}")
    keys = dict(_parsed(line, path) for line in _lines(content, path))
    if not keys:
        raise KeyFileRefused(f"CHP_AUDIT_KEY_FILE: {path} holds no key. {_REMEDY}")
    return KeyRing(keys, list(keys)[-1])


def create(path: Path, key_id: str = "audit-1") -> None:
    """Make a new key file with one random key, readable by its owner only.

    Raises FileExistsError where there is one: the entries that it signed would never verify again.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{key_id} {secrets.token_hex(SHORTEST_KEY)}\n")
        file.flush()
        os.fsync(file.fileno())


def _lines(content: bytes, path: Path) -> list[str]:
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise KeyFileRefused(f"CHP_AUDIT_KEY_FILE: {path} holds more than plain ASCII. {_REMEDY}") from error
    stripped = [line.strip() for line in text.splitlines()]
    return [line for line in stripped if line and not line.startswith("#")]


def _parsed(line: str, path: Path) -> tuple[str, bytes]:
    key_id, _, digits = line.partition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError as error:
        message = f"CHP_AUDIT_KEY_FILE: {path}: a line is not `<key id> <hexadecimal key>`. {_REMEDY}"
        raise KeyFileRefused(message) from error
    if len(key) < SHORTEST_KEY or len(set(key)) < _FEWEST_DIFFERENT_BYTES:
        raise KeyFileRefused(
            f"CHP_AUDIT_KEY_FILE: {path}: a line has no key id or a key that is too weak; "
            f"{SHORTEST_KEY} random bytes are needed. {_REMEDY}"
        )
    return key_id, key

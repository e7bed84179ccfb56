"""What an artifact says of itself: `manifest.json`, written last and readable without this program."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.archive.layout import MANIFEST
from agent.exceptions import ActionFailed
from agent.paths import open_regular

VERSION = 1
LARGEST = 64 * 1024 * 1024
ENGINES = ("mariadb", "sqlite")
_FILE = re.compile(r"(?:databases/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class FilesPart:
    """The archive of the files: its name in the folder, size, digest, and how many members it has."""

    name: str
    size: int
    sha256: str
    entries: int


@dataclass(frozen=True)
class DatabasePart:
    """One database: where it came from, the file it is in, and what it held.

    `path` is escaped, below the home; `mode` is the permission bits of an SQLite file;
    `tables` counts the rows of each table.
    """

    engine: str
    name: str
    path: str
    file: str
    size: int
    sha256: str
    tables: Mapping[str, int]
    mode: int


@dataclass(frozen=True)
class Manifest:
    """The whole manifest. Paths in `skipped`, `changed` and `vanished` are escaped, below the home."""

    version: int
    backup: str
    site_id: int
    domain: str
    created_at: str
    integrity: str
    compression: str
    tools: Mapping[str, str]
    files: FilesPart
    databases: tuple[DatabasePart, ...]
    skipped: tuple[str, ...]
    changed: tuple[str, ...]
    vanished: tuple[str, ...]


# An answer of the agent has to fit one line of the protocol, however many tables a site has.
MOST_TOLD = 400


def told(parts: Sequence[DatabasePart]) -> list[dict[str, object]]:
    """Give what an answer says of databases: each with the rows of as many tables as there is room for."""
    share = max(1, MOST_TOLD // max(1, len(parts)))
    return [
        {
            "engine": part.engine,
            "name": part.name,
            "tables": len(part.tables),
            "rows": dict(sorted(part.tables.items())[:share]),
            "sha256": part.sha256,
            "size_bytes": part.size,
        }
        for part in parts[:MOST_TOLD]
    ]


def write(manifest: Manifest, folder: Path) -> str:
    """Write the manifest into an artifact's folder and give its digest."""
    content = json.dumps(asdict(manifest), indent=2, ensure_ascii=True).encode() + b"\n"
    descriptor = os.open(folder / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def read(folder: Path, expected_sha256: str = "") -> Manifest:
    """Read an artifact's manifest. Raises ActionFailed in plain words where it is not what it must be."""
    with open_regular(folder / MANIFEST) as file:
        content = file.read(LARGEST + 1)
    if expected_sha256 and hashlib.sha256(content).hexdigest() != expected_sha256:
        raise ActionFailed("the manifest is not the one that was written: its checksum differs")
    try:
        return _parsed(json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ActionFailed(f"the manifest cannot be read: {error}") from error


def _parsed(fields: dict[str, Any]) -> Manifest:
    if fields["version"] != VERSION:
        raise ActionFailed(
            f"the manifest has version {fields['version']!r}; this agent reads version {VERSION}"
        )
    fields["files"] = FilesPart(**fields["files"])
    fields["databases"] = tuple(DatabasePart(**part) for part in fields["databases"])
    for name in ("skipped", "changed", "vanished"):
        fields[name] = tuple(fields[name])
    written = Manifest(**fields)
    for name in (written.files.name, *(part.file for part in written.databases)):
        if not _FILE.fullmatch(name):
            raise ActionFailed(f"the manifest names a file outside of its folder: {name!r}")
    for part in written.databases:
        _check_database(part)
    return written


def _check_database(part: DatabasePart) -> None:
    # Whoever may load a database is decided by its engine: one that is not known is nobody's.
    if part.engine not in ENGINES:
        raise ActionFailed(f"the manifest names the database engine {part.engine!r}, which is not known here")
    if not isinstance(part.name, str) or not isinstance(part.path, str) or type(part.mode) is not int:
        raise ActionFailed("the manifest describes a database with values of a wrong kind")
    if not all(type(rows) is int for rows in dict(part.tables).values()):
        raise ActionFailed(f"the manifest counts the rows of {part.name!r} with values that are no numbers")

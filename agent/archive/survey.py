"""A walk through a site's files, as their owner: where the SQLite databases are and what cannot be read."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.paths import shown

SQLITE_HEADER = b"SQLite format 3\0"
# Beside a database these belong to it: a copy of them next to an older database would undo its restore.
COMPANIONS = (b"-wal", b"-shm", b"-journal")


@dataclass
class Survey:
    """Escaped paths below the home."""

    databases: list[str] = field(default_factory=list)
    # What may lie beside a database and belongs to it; a folder of such a name does not.
    companions: dict[str, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


def survey(home: str) -> dict[str, Any]:
    """Walk through the home without following a link and give what a Survey holds. Runs as the owner."""
    found = Survey()
    root = os.fsencode(home)
    for path in _files(root, b"", found):
        if _is_database(os.path.join(root, path), path, found):
            found.databases.append(shown(path))
            found.companions[shown(path)] = [shown(name) for name in _companions(root, path)]
    return {
        "databases": sorted(found.databases),
        "companions": found.companions,
        "unreadable": sorted(found.unreadable),
    }


def _companions(root: bytes, path: bytes) -> list[bytes]:
    names = [path + ending for ending in COMPANIONS]
    return [name for name in names if not os.path.isdir(os.path.join(root, name))]


def _files(root: bytes, below: bytes, found: Survey) -> Iterator[bytes]:
    folders = [below]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except PermissionError:
            found.unreadable.append(shown(folder) or ".")
            continue
        except FileNotFoundError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path


def _is_database(path: bytes, below: bytes, found: Survey) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        found.unreadable.append(shown(below))
        return False
    except OSError:
        return False
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return regular and os.read(descriptor, len(SQLITE_HEADER)) == SQLITE_HEADER
    finally:
        os.close(descriptor)

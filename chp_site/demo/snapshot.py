"""What a site is, byte for byte and row for row, so that two moments of it can be compared."""

import os
import sqlite3
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Snapshot:
    """`entries`: per path its kind, mode, owner and digest. `rows`: per table the rows' count and digest."""

    entries: dict[str, str]
    rows: dict[str, tuple[int, str]]

    def differences(self, other: "Snapshot") -> list[str]:
        """Name every path and table that is not the same in both."""
        return _unequal(self.entries, other.entries) + _unequal(self.rows, other.rows)

    @property
    def row_count(self) -> int:
        return sum(count for count, _ in self.rows.values())


def of(home: Path) -> Snapshot:
    """Take the snapshot of a site's home. Databases are compared by their rows, all else by its bytes."""
    entries: dict[str, str] = {}
    rows: dict[str, tuple[int, str]] = {}
    for folder, names, files in os.walk(home):
        for name in (*names, *files):
            path = Path(folder, name)
            where = str(path.relative_to(home))
            if name.endswith(SQLITE_SUFFIXES):
                continue
            if name.endswith(".sqlite3"):
                rows |= _rows(path, where)
            else:
                entries[where] = _entry(path)
    return Snapshot(entries, rows)


def _entry(path: Path) -> str:
    status = path.lstat()
    content = ""
    if stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(status.st_mode):
        content = sha256(path.read_bytes()).hexdigest()
    return f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {content}"


def _rows(path: Path, where: str) -> dict[str, tuple[int, str]]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {}
        for name in names:
            lines = connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid').fetchall()  # noqa: S608 - own names
            found[f"{where}:{name}"] = (len(lines), sha256(repr(lines).encode()).hexdigest())
    connection.close()
    return found


def _unequal(mine: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))

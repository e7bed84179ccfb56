"""SQLite files: a consistent copy of a live database, and what a copy holds. All of it runs as the owner."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from agent.paths import make_folders_below, open_below, unshown

BUSY_SECONDS = 30.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def copy_database(home: str, shown_path: str, target: str) -> dict[str, object]:
    """Copy a live database consistently, whatever others write meanwhile.

    Gives {"tables": {name: rows}, "mode": permission bits}, or {"damaged": reason} for a file that only looks
    like a database. Raises OSError and ValueError.
    """
    source = os.path.join(os.fsencode(home), unshown(shown_path))
    mode = os.lstat(source).st_mode & 0o7777
    try:
        _copy(source, os.fsencode(target))
        return {"tables": count_rows(target), "mode": mode}
    except sqlite3.DatabaseError as error:
        # Only the lower byte is the kind of error; the rest says where.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            return {"damaged": str(error)}
        raise ValueError(f"{shown_path} cannot be copied: {error}") from error
    except TimeoutError as error:
        raise ValueError(f"{shown_path} cannot be copied: {error}") from error


def _copy(source: bytes, target: bytes) -> None:
    try:
        _copy_by(source, target, "mode=ro")
    except sqlite3.OperationalError:
        if _is_at_rest(source):
            _copy_by(source, target, "mode=ro&immutable=1")
        else:
            # A journal that a crash left has to be played back first, which a reader may not.
            _copy_by(source, target, "mode=rw")


def _is_at_rest(source: bytes) -> bool:
    """Say whether nobody of this owner's can write the database, and all of it is in its one file."""
    folder = os.path.dirname(source)
    if os.access(source, os.W_OK) or os.access(folder, os.W_OK):
        return False
    return not any(os.path.exists(source + ending) for ending in (b"-wal", b"-journal"))


def _copy_by(source: bytes, target: bytes, options: str) -> None:
    with _opened(source, options) as live, _opened(target, "mode=rwc") as copy:
        live.backup(copy, progress=_stop_if_locked)


def _stop_if_locked(status: int, remaining: int, total: int) -> None:
    # Called after each step, with how it ended. By itself Python tries a locked database again without end.
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise TimeoutError("database is locked")


def count_rows(path: str) -> dict[str, int]:
    """Give the number of rows of every table of a database that nobody else uses."""
    with _opened(os.fsencode(path), "mode=ro&immutable=1") as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        return {name: _rows(connection, name) for (name,) in names}


def check_copy(path: str) -> dict[str, object]:
    """Give {"problems": [...], "tables": {name: rows}} of a copy, by SQLite's own check."""
    try:
        with _opened(os.fsencode(path), "mode=ro&immutable=1") as connection:
            lines = [line for (line,) in connection.execute("PRAGMA integrity_check(10)")]
        problems = [] if lines == ["ok"] else lines
        return {"problems": problems, "tables": count_rows(path)}
    except sqlite3.DatabaseError as error:
        return {"problems": [str(error)], "tables": {}}


def put_in_place(home: str, shown_path: str, mode: int, descriptor: int) -> int:
    """Write a stream below a home, following no link and making missing folders, and give its size."""
    path = unshown(shown_path)
    make_folders_below(home, path)
    target = open_below(home, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(target, "wb") as file, os.fdopen(descriptor, "rb") as stream:
        while chunk := stream.read(1 << 20):
            file.write(chunk)
        size = file.tell()
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    return size


def _rows(connection: sqlite3.Connection, name: str) -> int:
    quoted = name.replace('"', '""')
    try:
        return int(connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])  # noqa: S608 - quoted
    except sqlite3.OperationalError:
        # A virtual table whose module is not here: its rows are in its shadow tables, which are counted.
        return 0


@contextmanager
def _opened(path: bytes, options: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(path)}?{options}", uri=True, timeout=BUSY_SECONDS)
    # Names that are no UTF-8 are told in some way rather than not at all.
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    try:
        yield connection
    finally:
        connection.close()

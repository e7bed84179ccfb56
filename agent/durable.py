"""Transactions on the agent's own SQLite files, which many processes write; a commit is on the disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_SECONDS = 30


@contextmanager
def transaction(path: Path, mode: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """Open the file and hold its write lock until the block ends: commit, or roll back on an exception.

    With mode DEFERRED the block may only read, and waits for nobody.
    A connection lives for one transaction only, since none may be carried over a fork.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"BEGIN {mode}")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    finally:
        connection.close()

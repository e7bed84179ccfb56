"""The database that is measured: made anew for each run from a migrated copy, and watched from outside."""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import psycopg
from django.core.management import call_command
from django.db import connection, connections

from benchmarks import statement_count
from benchmarks.private_postgresql import PrivatePostgreSQL


class Database(Protocol):
    """One database. Counts and seconds only ever grow: take the difference of two readings."""

    url: str

    def fresh(self) -> None:
        """Put an empty migrated database in the place of what is there. No process may use it."""

    def refresh_statistics(self) -> None:
        """Bring the planner's statistics up to date where the server would do so by itself."""

    def version(self) -> str:
        """Give the version of the library or server."""

    def watch_statements(self) -> dict[str, str]:
        """Begin to count; give the variables that a worker's environment needs for it."""

    def statements(self) -> int | None:
        """Give how many statements workers have executed, or None where it cannot be seen."""

    def transactions(self) -> int | None:
        """Give how many transactions the database has ended, or None where it does not count them."""

    def server_seconds(self) -> float | None:
        """Give the server's processor time, or None where there is no server of ours."""

    def close(self) -> None:
        """Take away all that was made."""


class SqliteDatabase:
    """A file in the benchmark's folder. SQLite has no server: its work is the worker's."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "chp.sqlite3"
        self._migrated = folder / "migrated.sqlite3"
        self._counted = folder / "statements"
        self.url = f"sqlite:///{self._file}"

    def fresh(self) -> None:
        connections.close_all()
        for suffix in ("", "-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
        if self._migrated.exists():
            shutil.copyfile(self._migrated, self._file)
            return
        call_command("migrate", verbosity=0)
        connections.close_all()
        shutil.copyfile(self._file, self._migrated)

    def refresh_statistics(self) -> None:
        """Do nothing: SQLite has no service that would."""

    def version(self) -> str:
        return sqlite3.sqlite_version

    def watch_statements(self) -> dict[str, str]:
        self._counted.write_bytes(b"")
        return {statement_count.VARIABLE: str(self._counted)}

    def statements(self) -> int | None:
        return self._counted.stat().st_size

    def transactions(self) -> int | None:
        return None

    def server_seconds(self) -> float | None:
        return None

    def close(self) -> None:
        connections.close_all()


class PostgresqlDatabase:
    """A database of its own on the given server, whose user may make databases, or on a private one."""

    def __init__(self, server_url: str | None) -> None:
        self._server = None if server_url else PrivatePostgreSQL()
        self._admin_url = server_url or (self._server.url if self._server else "")
        self._name = f"chp_bench_{os.getpid()}"
        self._migrated = f"{self._name}_migrated"
        self.url = urlsplit(self._admin_url)._replace(path=f"/{self._name}").geturl()
        self._made = False

    def fresh(self) -> None:
        connections.close_all()
        self._administer(f'DROP DATABASE IF EXISTS "{self._name}" WITH (FORCE)')
        if self._made:
            self._administer(f'CREATE DATABASE "{self._name}" TEMPLATE "{self._migrated}"')
            return
        self._administer(f'CREATE DATABASE "{self._name}"')
        call_command("migrate", verbosity=0)
        connections.close_all()
        self._administer(f'CREATE DATABASE "{self._migrated}" TEMPLATE "{self._name}"')
        self._made = True

    def refresh_statistics(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
            # What filling has written goes to the disk now, and not beside what is measured.
            cursor.execute("CHECKPOINT")

    def version(self) -> str:
        return str(self._administer("SHOW server_version")[0][0])

    def watch_statements(self) -> dict[str, str]:
        if self._server is not None:
            self._administer(f"ALTER DATABASE \"{self._name}\" SET log_statement = 'all'")
        return {}

    def statements(self) -> int | None:
        return self._server.logged_statements() if self._server else None

    def transactions(self) -> int | None:
        counted = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
        return int(self._administer(counted, self._name)[0][0])

    def server_seconds(self) -> float | None:
        return self._server.cpu_seconds() if self._server else None

    def close(self) -> None:
        connections.close_all()
        if self._server is not None:
            self._server.stop()
            return
        for name in (self._name, self._migrated):
            self._administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _administer(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(**_parts(self._admin_url), autocommit=True) as admin:
            cursor = admin.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []


def open_database(kind: str, url: str | None, folder: Path) -> Database:
    """Open the database of this kind, sqlite or postgresql; `url` names a PostgreSQL that is running."""
    return SqliteDatabase(folder) if kind == "sqlite" else PostgresqlDatabase(url)


def _parts(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    # A socket's folder stands in the host's place, quoted; the parser would write it in lower case.
    place = parts.netloc.rpartition("@")[2].partition(":")[0]
    return {
        "host": unquote(place) or None,
        "port": parts.port,
        "user": unquote(parts.username or "") or None,
        "password": unquote(parts.password or "") or None,
        "dbname": parts.path.lstrip("/") or "postgres",
    }

"""Trouble with the database that workers use; the test's own connection goes on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from django.db import connection

_OTHERS = "FROM pg_stat_activity WHERE datname = %s AND pid <> %s AND backend_type = 'client backend'"


@contextmanager
def outage() -> Iterator[None]:
    """Take the database away: PostgreSQL refuses every connection, an SQLite file is held by another."""
    with _refused() if connection.vendor == "postgresql" else _held():
        yield


def cut_sessions(like: str = "%") -> None:
    """End the sessions of all others whose last statement is like this. On SQLite: hold the file a moment."""
    if connection.vendor != "postgresql":
        with _held():
            return
    with closing(_administration()) as administration:
        _terminate(administration, like)


@contextmanager
def only_readable() -> Iterator[None]:
    """Let nobody write: PostgreSQL as a standby does after a failover, an SQLite file is held by another."""
    if connection.vendor != "postgresql":
        with _held():
            yield
        return
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with closing(_administration()) as administration:
        administration.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            _terminate(administration, "%")
            yield
        finally:
            administration.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


@contextmanager
def _held() -> Iterator[None]:
    path = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            holder.execute("ROLLBACK")


@contextmanager
def _refused() -> Iterator[None]:
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    connection.ensure_connection()
    with closing(_administration()) as administration:
        administration.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        try:
            _terminate(administration, "%")
            yield
        finally:
            administration.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")


def _administration() -> "psycopg.Connection[tuple[object, ...]]":
    # A session may not refuse connections to its own database.
    values = connection.settings_dict
    return psycopg.connect(
        host=values["HOST"], port=values["PORT"], user=values["USER"], dbname="postgres", autocommit=True
    )


def _terminate(administration: "psycopg.Connection[tuple[object, ...]]", like: str) -> None:
    connection.ensure_connection()
    mine = connection.connection.info.backend_pid
    administration.execute(
        f"SELECT pg_terminate_backend(pid, 5000) {_OTHERS} AND query LIKE %s",
        [connection.settings_dict["NAME"], mine, like],
    )

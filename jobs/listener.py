"""How an idle worker hears of new work before its next poll. Losing it only makes work start later."""

import logging
import sqlite3
import time
import uuid
from typing import Protocol
from urllib.parse import quote

import psycopg
from django.db import connection

from jobs.bell import CHANNEL

logger = logging.getLogger(__name__)
# How often a listener proves to itself that it still hears.
PROOF_SECONDS = 15.0
RETRY_SECONDS = 5.0
# SQLite has no notifications: its file is looked at this often, and less often once it was quiet for a while.
LOOK_SECONDS, QUIET_LOOK_SECONDS = 0.01, 0.04
QUIET_SECONDS = 2.0


class Listener(Protocol):
    """Hears the bell. `look_seconds` is None where a descriptor tells when to call `heard`."""

    @property
    def look_seconds(self) -> float | None:
        """Give how often `heard` must be called now."""

    def connected(self) -> tuple[int, int] | None:
        """Give (number of the connection, descriptor that becomes readable), None while there is none."""

    def heard(self) -> bool:
        """Say whether it may have rung since the last call."""

    def close(self) -> None:
        """Stop listening."""


def new_listener() -> Listener:
    """Give the listener that fits the database."""
    return NotificationListener() if connection.vendor == "postgresql" else FileListener()


class NotificationListener:
    """LISTEN on a connection of its own, whose life it checks by a notification to itself."""

    look_seconds: float | None = None

    def __init__(self) -> None:
        self._proof = f"chp_proof_{uuid.uuid4().hex}"
        self._connection: psycopg.Connection[object] | None = None
        self._number = 0
        self._next_proof = 0.0
        self._proven = True
        self._connect()

    def connected(self) -> tuple[int, int] | None:
        return None if self._connection is None else (self._number, self._connection.fileno())

    def heard(self) -> bool:
        """Also true after the connection had to be made again: something may have been missed."""
        try:
            return self._hear()
        except psycopg.Error as error:
            logger.warning("the wake-up connection is lost, polling goes on: %s", str(error).strip())
            self._drop()
            return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _hear(self) -> bool:
        if self._connection is None:
            return time.monotonic() >= self._next_proof and self._connect()
        channels = {notice.channel for notice in self._connection.notifies(timeout=0)}
        self._proven = self._proven or self._proof in channels
        if time.monotonic() >= self._next_proof:
            self._prove(self._connection)
        return CHANNEL in channels

    def _prove(self, connected: "psycopg.Connection[object]") -> None:
        if not self._proven:
            raise psycopg.OperationalError("it no longer hears its own notifications")
        self._proven = False
        self._next_proof = time.monotonic() + PROOF_SECONDS
        connected.execute("SELECT pg_notify(%s, '')", [self._proof])

    def _connect(self) -> bool:
        parameters = connection.get_connection_params()
        for unwanted in ("cursor_factory", "context"):
            parameters.pop(unwanted, None)
        # A half-open connection is noticed by the kernel and not waited for.
        parameters |= {"autocommit": True, "connect_timeout": 5, "tcp_user_timeout": 5000}
        self._next_proof = time.monotonic() + RETRY_SECONDS
        try:
            self._connection = psycopg.connect(**parameters)
            self._connection.execute(f'LISTEN "{CHANNEL}"')
            self._connection.execute(f'LISTEN "{self._proof}"')
        except psycopg.Error as error:
            logger.warning("no wake-up connection, polling goes on: %s", str(error).strip())
            self._drop()
            return False
        self._number += 1
        self._proven = True
        logger.info("listening for new work")
        return True

    def _drop(self) -> None:
        self.close()
        self._next_proof = time.monotonic() + RETRY_SECONDS


class FileListener:
    """Looks whether anybody else has changed the database file: one read of shared memory."""

    def __init__(self) -> None:
        self._changed_at = time.monotonic()
        self._path = str(connection.settings_dict["NAME"])
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._next_try = 0.0

    @property
    def look_seconds(self) -> float | None:
        """Give how often `heard` must be called now."""
        quiet = time.monotonic() - self._changed_at > QUIET_SECONDS
        return QUIET_LOOK_SECONDS if quiet else LOOK_SECONDS

    def connected(self) -> tuple[int, int] | None:
        return None

    def heard(self) -> bool:
        """Also true once the file can be looked at again: something may have been missed."""
        if time.monotonic() < self._next_try:
            return False
        try:
            if self._connection is None:
                # Only for reading: where no file is, none is made.
                address = f"file:{quote(self._path)}?mode=ro"
                self._connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0)
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            logger.warning("the database file cannot be looked at, polling goes on: %s", error)
            self.close()
            self._next_try = time.monotonic() + RETRY_SECONDS
            return False
        changed = version != self._version
        if changed:
            self._changed_at = time.monotonic()
        self._version = version
        return bool(changed)

    def close(self) -> None:
        # The number means something on its own connection only.
        self._version = -1
        if self._connection is not None:
            self._connection.close()
            self._connection = None

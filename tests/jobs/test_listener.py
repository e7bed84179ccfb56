"""The two listeners by themselves: proof of life, and coming back after a loss."""

import logging
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs import listener as module
from jobs.bell import CHANNEL
from jobs.listener import PROOF_SECONDS, RETRY_SECONDS, FileListener, NotificationListener


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Session:
    """A session of a pretended server: it notifies itself, while it is alive and not deaf."""

    def __init__(self) -> None:
        self.channels: list[str] = []
        self.listens: list[str] = []
        self.is_alive = True
        self.is_deaf = False
        self._ends = socket.socketpair()

    def execute(self, statement: str, values: list[str] | None = None) -> None:
        self._require_alive()
        if statement.startswith("LISTEN"):
            self.listens.append(statement.split('"')[1])
        elif values is not None and not self.is_deaf:
            self.channels += values

    def notifies(self, timeout: float) -> Iterator[SimpleNamespace]:
        self._require_alive()
        heard, self.channels = self.channels, []
        return iter([SimpleNamespace(channel=channel) for channel in heard])

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def close(self) -> None:
        for end in self._ends:
            end.close()

    def _require_alive(self) -> None:
        if not self.is_alive:
            raise psycopg.OperationalError("terminating connection due to administrator command")


class Server:
    """Pretends to be PostgreSQL: gives sessions, while it is there."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.is_there = True

    def connect(self, **parameters: Any) -> Session:
        if not self.is_there:
            raise psycopg.OperationalError("connection refused")
        self.sessions.append(Session())
        return self.sessions[-1]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(psycopg, "connect", server.connect)
    monkeypatch.setattr(connection, "get_connection_params", dict)
    yield server
    for session in server.sessions:
        session.close()


# --- Notifications --------------------------------------------------------------------------------
def test_it_hears_the_bell_and_nothing_else(server: Server, clock: Clock) -> None:
    listener = NotificationListener()
    server.sessions[0].channels.append("another_channel")
    assert not listener.heard()
    server.sessions[0].channels.append(CHANNEL)
    assert listener.heard()
    assert not listener.heard()


def test_it_proves_to_itself_that_it_hears(server: Server, clock: Clock) -> None:
    """Queue C6: the proof goes to a channel of its own, and rings for nobody."""
    listener = NotificationListener()
    (session,) = server.sessions
    for _ in range(5):
        clock.now += PROOF_SECONDS
        assert not listener.heard()
        assert session.channels == [session.listens[1]]
        assert not listener.heard()
    assert len(server.sessions) == 1


def test_one_that_no_longer_hears_itself_connects_anew(
    server: Server, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Queue C6: half open, or behind a pooler; it says so, and something may have been missed."""
    listener = NotificationListener()
    server.sessions[0].is_deaf = True
    clock.now += PROOF_SECONDS
    assert not listener.heard()
    clock.now += PROOF_SECONDS
    assert listener.heard()
    assert "it no longer hears its own notifications" in caplog.text
    assert listener.connected() is None
    clock.now += RETRY_SECONDS
    assert listener.heard()
    server.sessions[1].channels.append(CHANNEL)
    assert listener.heard()


def test_a_lost_session_is_told_once_and_tried_again_after_a_pause(
    server: Server, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Queue C6: a server that is away is not asked at every turn."""
    listener = NotificationListener()
    server.sessions[0].is_alive = server.is_there = False
    assert listener.heard()
    assert [listener.heard() for _ in range(3)] == [False, False, False]
    clock.now += RETRY_SECONDS
    assert [listener.heard() for _ in range(3)] == [False, False, False]
    assert caplog.text.count("no wake-up connection") == 1
    server.is_there = True
    clock.now += RETRY_SECONDS
    assert listener.heard()
    assert listener.connected() == (2, server.sessions[-1].fileno())


def test_a_server_that_is_not_there_at_the_start_is_found_later(server: Server, clock: Clock) -> None:
    """Queue C7."""
    server.is_there = False
    listener = NotificationListener()
    assert listener.connected() is None
    server.is_there = True
    clock.now += RETRY_SECONDS
    assert listener.heard()
    assert listener.connected() is not None


# --- The file -------------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "some.sqlite3"
    with sqlite3.connect(path) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (x)")
    writer.close()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(path))
    return path


def write(path: Path) -> None:
    with sqlite3.connect(path) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
    writer.close()


def test_a_changed_file_is_heard_once(file: Path) -> None:
    listener = FileListener()
    assert listener.heard(), "what was before it came is not known to it"
    assert not listener.heard()
    write(file)
    write(file)
    assert [listener.heard(), listener.heard()] == [True, False]
    listener.close()


def test_a_file_held_by_another_can_be_looked_at(file: Path) -> None:
    """Queue K1: looking takes no lock."""
    listener = FileListener()
    listener.heard()
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("INSERT INTO t VALUES (1)")
    assert not listener.heard()
    holder.execute("COMMIT")
    assert listener.heard()
    holder.close()
    listener.close()


def test_a_file_that_cannot_be_looked_at_is_told_once_in_a_while(
    file: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Queue C7: not at every look, a hundred times a second; and then something may have been missed."""
    listener = FileListener()
    listener.heard()
    listener.close()
    file.rename(file.with_suffix(".away"))
    file.mkdir()
    with caplog.at_level(logging.WARNING):
        assert [listener.heard() for _ in range(50)] == [False] * 50
    assert caplog.text.count("cannot be looked at") == 1
    file.rmdir()
    file.with_suffix(".away").rename(file)
    clock.now += RETRY_SECONDS
    assert [listener.heard(), listener.heard()] == [True, False]
    listener.close()


def test_where_no_file_is_none_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is being restored by hand must not find an empty one in its place."""
    gone = tmp_path / "gone?#%.sqlite3"
    monkeypatch.setitem(connection.settings_dict, "NAME", str(gone))
    listener = FileListener()
    assert not listener.heard()
    assert not gone.exists()
    listener.close()

"""A database of the chaos' own, on either engine, with the troubles that its engine can have."""

import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Protocol

import psycopg

from tests.engine.trouble import Trouble
from tests.services.postgresql import PostgreSQL


class PrivateDatabase(Protocol):
    """What the chaos asks of a database."""

    @property
    def url(self) -> str:
        """Where Django connects to."""

    def troubles(self) -> list[Trouble]:
        """Give what can befall it. Each makes its trouble, and says which."""

    def stop(self) -> None:
        """End whatever was started for it."""


class PrivateSQLite:
    """A file. Its one trouble: another process that holds it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "chaos.sqlite3"
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def troubles(self) -> list[Trouble]:
        return [self.hold]

    def hold(self, dice: Random) -> str:
        """Let another process hold the database for up to some seconds."""
        seconds = dice.uniform(0.1, 3)
        if self._holder is None or self._holder.poll() is not None:
            self._holder = subprocess.Popen(
                [sys.executable, "-m", "tests.engine.hold_database", str(self._path), str(seconds)],
                stdin=subprocess.DEVNULL,
            )
        return f"hold the database for {seconds:.1f} s"

    def stop(self) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()


class PrivatePostgreSQL(PostgreSQL):
    """A server that loses sessions, is restarted, and crashes."""

    def __init__(self) -> None:
        super().__init__()
        # The server must keep what it has confirmed when it crashes; that its machine does not is enough.
        self._execute("ALTER ROLE postgres SET synchronous_commit = on")

    def troubles(self) -> list[Trouble]:
        return [self.cut, self.cut, self.cut, self.restart]

    def cut(self, dice: Random) -> str:
        """End about half of all sessions."""
        self._execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5"
        )
        return "cut half of the sessions"

    def restart(self, dice: Random) -> str:
        """Restart the server: in order, or as after a crash."""
        is_crash = dice.random() < 0.5
        self._end(signal.SIGQUIT if is_crash else signal.SIGINT)
        self._process = self._start()
        return "crash and restart the server" if is_crash else "restart the server"

    def stop(self) -> None:
        self._end(signal.SIGINT)
        super().stop()

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(30)

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)

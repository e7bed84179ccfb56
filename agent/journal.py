"""Every operation's start and outcome, on disk before it is answered. Claiming a request id is one insert."""

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.durable import transaction
from agent.exceptions import OperationInterrupted
from agent.liveness import ProcessIdentity, identify, is_alive

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS operation (
        request_id TEXT PRIMARY KEY, job TEXT NOT NULL, action TEXT NOT NULL, digest TEXT NOT NULL,
        site_id INTEGER, state TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER, outcome TEXT,
        pid INTEGER NOT NULL, process_started TEXT NOT NULL, cancel_requested INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS operation_job ON operation (job)",
    "CREATE INDEX IF NOT EXISTS operation_started ON operation (state) WHERE state = 'STARTED'",
)


_BY_ID = "SELECT * FROM operation WHERE request_id = ?"
_BY_JOB = "SELECT * FROM operation WHERE job = ? ORDER BY started_at DESC, rowid DESC LIMIT ?"
_LATEST = "SELECT * FROM operation ORDER BY started_at DESC, rowid DESC LIMIT ?"


class State(StrEnum):
    """How far an operation is."""

    STARTED = "STARTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    INTERRUPTED = "INTERRUPTED"


@dataclass(frozen=True)
class Outcome:
    """The final answer of an operation: kind `result` or `error`, and its body."""

    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What identifies the work that a request asks for; `digest` is over action and arguments."""

    request_id: str
    action: str
    digest: str
    site_id: int | None


@dataclass(frozen=True)
class Entry:
    """One line of the journal; times are Unix milliseconds."""

    claim: Claim
    state: State
    started_at: int
    ended_at: int | None
    outcome: Outcome | None
    process: ProcessIdentity
    is_cancel_requested: bool

    def shown(self) -> dict[str, object]:
        """Give the entry as `agent.read_journal` tells it."""
        return {
            "id": self.claim.request_id,
            "action": self.claim.action,
            "state": str(self.state),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "outcome": self.outcome and {"kind": self.outcome.kind, "body": self.outcome.body},
        }


class Journal:
    """The journal file, shared by all processes. What a dead one left open is INTERRUPTED when read."""

    def __init__(self, state_dir: Path) -> None:
        """Take the state folder."""
        self.path = state_dir / "journal.sqlite3"

    def prepare(self) -> None:
        """Make the file if it is not there, and close what an earlier agent left open."""
        with transaction(self.path) as connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            _interrupt_lost(connection)

    def claim(self, claim: Claim) -> bool:
        """Write that this very process starts the work; False if the id was taken before."""
        process = identify(os.getpid())
        if process is None:
            raise OperationInterrupted("/proc does not know this process, so it cannot be watched over")
        job = claim.request_id.partition(":")[0]
        values = (claim.request_id, job, claim.action, claim.digest, claim.site_id)
        with transaction(self.path) as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO operation (request_id, job, action, digest, site_id, state,"
                " started_at, pid, process_started) VALUES (?, ?, ?, ?, ?, 'STARTED', ?, ?, ?)",
                (*values, _now_ms(), process.pid, process.started),
            )
            return added.rowcount == 1

    def finish(self, request_id: str, state: State, outcome: Outcome) -> None:
        """Write how the operation ended. The first outcome stays, unless it was a guess (INTERRUPTED)."""
        with transaction(self.path) as connection:
            _finish(connection, request_id, state, outcome)

    def find(self, request_id: str) -> Entry | None:
        """Give the entry of a request id, if there is one."""
        entries = self._select(_BY_ID, (request_id,))
        return entries[0] if entries else None

    def of_job(self, job: str, limit: int = 1000) -> list[Entry]:
        """Give a job's entries, newest first."""
        return self._select(_BY_JOB, (job, limit))

    def latest(self, limit: int) -> list[Entry]:
        """Give the newest entries, newest first."""
        return self._select(_LATEST, (limit,))

    def request_cancel(self, request_id: str) -> Entry | None:
        """Note that the operation shall stop and give the entry as it was before."""
        with transaction(self.path) as connection:
            _interrupt_lost(connection)
            row = connection.execute(_BY_ID, (request_id,)).fetchone()
            connection.execute(
                "UPDATE operation SET cancel_requested = 1 WHERE request_id = ? AND state = 'STARTED'",
                (request_id,),
            )
            return _entry(row) if row else None

    def is_cancel_requested(self, request_id: str) -> bool:
        """Say whether the operation shall stop."""
        with transaction(self.path, "DEFERRED") as connection:
            found = connection.execute(
                "SELECT 1 FROM operation WHERE request_id = ? AND cancel_requested", (request_id,)
            )
            return found.fetchone() is not None

    def _select(self, statement: str, values: tuple[object, ...]) -> list[Entry]:
        with transaction(self.path) as connection:
            _interrupt_lost(connection)
            return [_entry(row) for row in connection.execute(statement, values)]


def _interrupt_lost(connection: sqlite3.Connection) -> None:
    for row in connection.execute("SELECT * FROM operation WHERE state = 'STARTED'").fetchall():
        entry = _entry(row)
        if not is_alive(entry.process):
            outcome = Outcome("error", OperationInterrupted().body())
            _finish(connection, entry.claim.request_id, State.INTERRUPTED, outcome)


def _finish(connection: sqlite3.Connection, request_id: str, state: State, outcome: Outcome) -> None:
    connection.execute(
        "UPDATE operation SET state = ?, outcome = ?, ended_at = ?"
        " WHERE request_id = ? AND state IN ('STARTED', 'INTERRUPTED')",
        (state, json.dumps({"kind": outcome.kind, "body": outcome.body}), _now_ms(), request_id),
    )


def _entry(row: sqlite3.Row) -> Entry:
    outcome = row["outcome"]
    return Entry(
        claim=Claim(row["request_id"], row["action"], row["digest"], row["site_id"]),
        state=State(row["state"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=Outcome(**json.loads(outcome)) if outcome else None,
        process=ProcessIdentity(row["pid"], row["process_started"]),
        is_cancel_requested=bool(row["cancel_requested"]),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

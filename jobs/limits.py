"""How many jobs may run at once. Counted from running rows: there is no counter to leak.

What is counted is places, the slots of workers: of several brief jobs that one slot was handed only one runs
at a time, so together they take one place of every limit.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from django.db import connection

from jobs import statements
from jobs.policies import LIMITED, Limits, limits_from
from jobs.queries import HELD_SQL
from jobs.statements import Statement

# Any constant does, as long as everybody takes the same one.
LIMITS_LOCK = 0x43_48_50_01
# The first statement of a claim on PostgreSQL.
LOCK: Statement = ("SELECT pg_advisory_xact_lock(%s)", [LIMITS_LOCK])
RUNNING = f"""
    SELECT DISTINCT worker_id, place, job_type, server_id, heavy FROM jobs_job WHERE {HELD_SQL}
"""  # noqa: S608 - of constants
Place = tuple[UUID | None, int | None]
Group = tuple[Any, ...]


def lock() -> None:
    """Let one transaction at a time hand out work or change what holds it back.

    SQLite's transaction is IMMEDIATE and so already alone. On PostgreSQL two claimers that each count one of
    two places would both take it: the transaction's own advisory lock makes the count exact. It is the first
    lock of all.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(*LOCK)


class Work(Protocol):
    """What a limit looks at: a job, or as much of one as it takes to choose it."""

    @property
    def job_type(self) -> str:
        """Give its type."""

    @property
    def server_id(self) -> int | None:
        """Give the key of its server."""

    @property
    def heavy(self) -> str:
        """Give the resources that it uses heavily, separated by commas."""


@dataclass(frozen=True)
class _Running:
    job_type: str
    server_id: int | None
    heavy: str


@dataclass
class Room:
    """What the limits leave, as of one moment inside the claim's lock; kept up as jobs are chosen."""

    limits: Limits
    used: dict[Group, set[Place]] = field(default_factory=lambda: defaultdict(set))

    def take(self, job: Work, place: Place) -> None:
        """Count one more job at a place."""
        for group, _, _ in self._rules(job):
            self.used[group].add(place)

    def reason_against(self, job: Work, place: Place | None = None) -> str:
        """Give the sentence why this job may not start (at this place), or an empty one."""
        for group, limit, name in self._rules(job):
            taken = self.used.get(group, set())
            if len(taken) >= limit and (place is None or place not in taken):
                return name.format(f"{len(taken)} of {limit}")
        return ""

    def is_taken(self, place: Place) -> bool:
        """Whether a job is held at this place."""
        return place in self.used.get(("all",), ())

    def is_full(self) -> bool:
        """Whether no further place of the installation is left."""
        return len(self.used.get(("all",), ())) >= self.limits.overall

    def is_type_full(self, job_type: str) -> bool:
        """Whether this type has reached its own limit."""
        limit = self.limits.by_type.get(job_type)
        return limit is not None and len(self.used.get(("type", job_type), ())) >= limit

    def full_servers(self, job_type: str, heavy: Iterable[str]) -> set[int]:
        """Give the servers on which no job of this type and load may start."""
        names = set(heavy)
        return {group[-1] for group, taken in self.used.items() if self._shuts(group, taken, job_type, names)}

    def _shuts(self, group: Group, taken: set[Place], job_type: str, heavy: set[str]) -> bool:
        limits = self.limits
        match group:
            case ("server", _):
                return len(taken) >= limits.per_server
            case ("type on server", kind, _):
                limit = limits.by_type_on_server.get(kind)
                return kind == job_type and limit is not None and len(taken) >= limit
            case ("heavy", resource, _):
                return resource in heavy and len(taken) >= limits.heavy[resource]
        return False

    def _rules(self, job: Work) -> list[tuple[Group, int, str]]:
        """Give each limit that a job counts for: its group, its number, and its words."""
        limits, kind, server = self.limits, job.job_type, job.server_id
        rules: list[tuple[Group, int, str]] = [(("all",), limits.overall, "MAX_WORKERS limit {}")]
        if kind in limits.by_type:
            rules.append((("type", kind), limits.by_type[kind], f"{kind} limit {{}}"))
        if server is None:
            return rules
        rules.append((("server", server), limits.per_server, "limit of jobs on its server {}"))
        if kind in limits.by_type_on_server:
            limit = limits.by_type_on_server[kind]
            rules.append((("type on server", kind, server), limit, f"{kind} limit {{}} on its server"))
        for name in filter(None, job.heavy.split(",")):
            rules.append(
                (("heavy", name, server), limits.heavy[name], f"heavy {name} limit {{}} on its server")
            )
        return rules


def room() -> Room:
    """Give the room beside what runs now."""
    limited, running = statements.together([(LIMITED, ()), (RUNNING, ())])
    return room_beside(limits_from(limited), running)


def room_beside(limits: Limits, running: Sequence[tuple[Any, ...]]) -> Room:
    """Give the room that limits leave beside what RUNNING has found."""
    found = Room(limits)
    for worker_id, place, job_type, server_id, heavy in running:
        found.take(_Running(job_type, server_id, heavy), (_as_uuid(worker_id), place))
    return found


def _as_uuid(value: UUID | str | None) -> UUID | None:
    return UUID(value) if isinstance(value, str) else value

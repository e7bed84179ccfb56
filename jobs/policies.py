"""The policy of a type: its declaration, changed by what staff has put into the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from jobs.models import JobPolicy
from jobs.operation import Operation
from jobs.profile import OnLost, Priority
from jobs.statements import Columns

# On the way of every job: plain SQL, which costs a fraction of what composing it anew does.
_POLICY = Columns(JobPolicy)
LIMITED = """
    SELECT job_type, concurrency, concurrency_per_server FROM jobs_jobpolicy
    WHERE concurrency IS NOT NULL OR concurrency_per_server IS NOT NULL
"""


@dataclass(frozen=True)
class Policy:
    """What travels with a job. Delays, timeout and stale limit are seconds."""

    priority: Priority
    max_attempts: int
    retry_delays: tuple[int, ...]
    timeout_seconds: int
    stale_seconds: float
    on_lost: OnLost


def policy_of(operation: Operation) -> Policy:
    """Give the policy in force for a new job of this type."""
    declared = operation.profile
    row = _row_of(operation.name) or JobPolicy()
    return Policy(
        priority=declared.priority if row.priority is None else Priority(row.priority),
        max_attempts=row.max_attempts or declared.attempts,
        retry_delays=declared.retry_delays if row.retry_delays is None else tuple(row.retry_delays),
        timeout_seconds=row.timeout_seconds or declared.timeout,
        stale_seconds=settings.CHP_HEARTBEAT_SECONDS * settings.CHP_STALE_BEATS,
        on_lost=declared.on_lost,
    )


def _row_of(job_type: str) -> JobPolicy | None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_POLICY.sql} FROM jobs_jobpolicy WHERE job_type = %s", [job_type])  # noqa: S608
        row = cursor.fetchone()
    return None if row is None else _POLICY.instance(row)


@dataclass(frozen=True)
class Limits:
    """The most jobs at once: overall, by type, on a server, by type on a server, by heavy resource there."""

    overall: int
    by_type: Mapping[str, int]
    per_server: int
    by_type_on_server: Mapping[str, int]
    heavy: Mapping[str, int]


def limits_from(rows: Sequence[tuple[str, int | None, int | None]]) -> Limits:
    """Give the limits by what LIMITED has found. The file is the ceiling; the table may lower it."""
    by_type: dict[str, int] = dict(settings.CHP_TYPE_LIMITS)
    on_server: dict[str, int] = dict(settings.CHP_TYPE_LIMITS_PER_SERVER)
    per_server = settings.MAX_JOBS_PER_SERVER or settings.MAX_WORKERS
    for job_type, most, most_on_server in rows:
        if most is not None:
            by_type[job_type] = min(by_type.get(job_type, settings.MAX_WORKERS), most)
        if most_on_server is not None:
            ceiling = on_server.get(job_type, per_server)
            on_server[job_type] = min(ceiling, most_on_server)
    return Limits(settings.MAX_WORKERS, by_type, per_server, on_server, settings.CHP_HEAVY_LIMITS)

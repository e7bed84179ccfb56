"""The policy of a type: its declaration, changed by what staff has put into the table."""

from dataclasses import dataclass

from django.conf import settings

from jobs.models import JobPolicy
from jobs.operation import Operation
from jobs.profile import OnLost, Priority


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
    row = JobPolicy.objects.filter(job_type=operation.name).first() or JobPolicy()
    return Policy(
        priority=declared.priority if row.priority is None else Priority(row.priority),
        max_attempts=row.max_attempts or declared.attempts,
        retry_delays=declared.retry_delays if row.retry_delays is None else tuple(row.retry_delays),
        timeout_seconds=row.timeout_seconds or declared.timeout,
        stale_seconds=settings.CHP_HEARTBEAT_SECONDS * settings.CHP_STALE_BEATS,
        on_lost=declared.on_lost,
    )


def type_limits() -> dict[str, int]:
    """Give the most jobs at once per limited type. The file is the ceiling; the table may lower it."""
    limits: dict[str, int] = dict(settings.CHP_TYPE_LIMITS)
    rows = JobPolicy.objects.exclude(concurrency=None).values_list("job_type", "concurrency")
    for job_type, concurrency in rows:
        ceiling = limits.get(job_type, settings.MAX_WORKERS)
        limits[job_type] = min(ceiling, concurrency or 0)
    return limits

"""How the queue stands, in figures: for the command and the head of the admin's list.

A constant number of queries, each counting along an index of its own, so that the figures of a large queue
cost little.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection
from django.db.models import Count

from audit.clock import database_now
from jobs.models import Job, Pause, PauseScope
from jobs.queries import closing_jobs
from jobs.states import ENDED, HELD, Readiness, Status
from jobs.waiting import live_workers

# What a queued job can wait for, in the order in which it is told.
KINDS = (Readiness.LATER, Readiness.PARENT, Readiness.SITE, Readiness.BEHIND, Readiness.PAUSED)
# Without figures of its own SQLite would rather read every job that ever ended than the index of times.
_ENDED = """
    SELECT status, COUNT(*) FROM {table} {hint}
    WHERE status IN ({ended}) AND completed_at >= %s GROUP BY status
"""


@dataclass(frozen=True)
class Figures:
    """Counts of jobs and workers. `waiting` is by kind; today began at midnight UTC.

    What was asked to stop and has not yet still counts as running.
    """

    running: int
    ready: int
    waiting: Mapping[Readiness, int]
    failed_today: int
    completed_today: int
    orphaned: int
    workers_alive: int

    @property
    def queued(self) -> int:
        """Give how many are queued, ready or waiting."""
        return self.ready + sum(self.waiting.values())


def figures() -> Figures:
    """Give the figures of this moment."""
    now = database_now()
    closing = dict(closing_jobs().order_by().values_list("status").annotate(many=Count("pk")))
    ended = _ended_since(_midnight(now))
    return Figures(
        running=sum(closing.get(status, 0) for status in HELD),
        ready=Job.objects.filter(readiness=Readiness.READY).count(),
        waiting={kind: _waiting(kind) for kind in KINDS},
        failed_today=ended.get(Status.FAILED, 0),
        completed_today=ended.get(Status.SUCCESS, 0),
        orphaned=closing.get(Status.ORPHANED, 0),
        workers_alive=len(live_workers(now)),
    )


def _waiting(kind: Readiness) -> int:
    jobs = Job.objects.filter(readiness=kind)
    if kind == Readiness.PAUSED:
        # Only paused sites have such jobs, and those are few.
        jobs = jobs.filter(site_id__in=Pause.objects.filter(scope=PauseScope.SITE).values("site_id"))
    return jobs.count()


def _ended_since(moment: datetime) -> dict[str, int]:
    sql = _ENDED.format(
        table=Job._meta.db_table,
        hint="INDEXED BY job_ended" if connection.vendor == "sqlite" else "",
        ended=", ".join(f"'{status.value}'" for status in ENDED),
    )
    value = connection.ops.adapt_datetimefield_value(moment)
    with connection.cursor() as cursor:
        cursor.execute(sql, [value])
        return dict(cursor.fetchall())


def _midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

"""Aging: a job that has waited long rises one priority per interval, never above HIGH."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from audit.clock import database_now
from jobs import events
from jobs.events import Line
from jobs.models import EventType, Job
from jobs.profile import Priority
from jobs.queries import standing
from jobs.states import WAITING
from jobs.turns import Turns

MOST_AT_ONCE = 500


def raise_priorities() -> int:
    """Raise the jobs that have waited in line for an interval; give how many. 0 hours switch aging off.

    What waits for its time or for another job does not age: it is not in line.
    """
    if not settings.CHP_AGING_HOURS:
        return 0
    interval = timedelta(hours=settings.CHP_AGING_HOURS)
    if not _old(database_now() - interval).exists():
        return 0
    with transaction.atomic():
        now = database_now()
        jobs = list(_old(now - interval).select_for_update(skip_locked=True)[:MOST_AT_ONCE])
        turns = Turns()
        for job in jobs:
            _raise(job, now, turns)
        events.write([(job, _line(job, interval)) for job in jobs], now)
        return len(jobs)


def _old(moment: datetime) -> QuerySet[Job]:
    lower = standing(*WAITING).extra(where=[f"priority > {Priority.HIGH.value}"])  # noqa: S610 - a constant
    return lower.filter(waiting_since__lte=moment).order_by("waiting_since")


def _raise(job: Job, now: datetime, turns: Turns) -> None:
    job.priority -= 1
    values = {
        "priority": job.priority,
        "turn": turns.take(job.customer_id, job.priority),
        "waiting_since": now,
    }
    Job.objects.filter(pk=job.pk).update(**values)


def _line(job: Job, interval: timedelta) -> Line:
    hours = interval.total_seconds() / 3600
    message = f"waited {hours:g} h: priority is {Priority(job.priority).name} now"
    return Line(EventType.PRIORITY_RAISED, message, data={"priority": job.priority})

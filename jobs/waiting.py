"""Why a job is not running, in a sentence, for every place that shows jobs."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings

from audit.clock import database_now
from jobs.limits import room
from jobs.models import Job, Worker
from jobs.queue import blocker_of, held_jobs
from jobs.states import HELD, Status

# A worker that has missed this many beats is not counted as alive.
MISSED_BEATS = 4


def explain(jobs: Iterable[Job]) -> dict[int, str]:
    """Give the waiting reason of each queued job among these, by its key. A constant number of queries."""
    queued = [job for job in jobs if job.status == Status.QUEUED]
    if not queued:
        return {}
    now = database_now()
    closing = list(held_jobs().select_related("site"))
    left = room(job for job in closing if job.status in HELD)
    known = _live_types(now)
    return {job.pk: _reason(job, now, closing, left.reason_against(job.job_type), known) for job in queued}


def _live_types(now: datetime) -> set[str]:
    silence = timedelta(seconds=settings.CHP_HEARTBEAT_SECONDS * MISSED_BEATS)
    alive = Worker.objects.filter(stopped_at=None, polled_at__gte=now - silence)
    return {job_type for types in alive.values_list("job_types", flat=True) for job_type in types}


def _reason(job: Job, now: datetime, closing: list[Job], limit: str, known: set[str]) -> str:
    if job.scheduled_at > now:
        because = f": {job.error_message}" if job.error_message else ""
        return f"due at {job.scheduled_at:%Y-%m-%d %H:%M:%S} UTC{because}"
    if job.job_type not in known:
        return "no live worker" if not known else f"no live worker knows type {job.job_type}"
    blocker = blocker_of(job, closing)
    if blocker is not None:
        word = "blocked by ORPHANED" if blocker.status == Status.ORPHANED else "behind"
        where = f" on {blocker.site}" if blocker.site else ""
        return f"{word} {blocker.code} ({blocker.job_type}, {blocker.status}{where})"
    return limit or "next in turn"

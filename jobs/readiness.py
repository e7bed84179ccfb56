"""Whether each queued job can be claimed: stored in its row, and kept up by everything that changes it.

Who calls this holds the gates of the sites concerned (`jobs.gates.lock`), so that a job that gets in line
and a job that leaves its site never miss each other. Rules:

- on a site that a conflicting job keeps closed, a job waits for that job (SITE);
- of exclusive jobs of one type on one site only the first is in line; the others stand behind it (BEHIND),
  so that leaving and coming cost the same however many there are;
- a job of another type is not held up by one that is merely queued.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from jobs import gates
from jobs.conflicts import must_wait
from jobs.gates import Gates
from jobs.models import ORDER, Job, JobDependency
from jobs.profile import SiteLock
from jobs.queries import standing
from jobs.states import CLOSING, HEADS, SATISFIED, Readiness, Status
from jobs.turns import Turns

Values = dict[str, Any]


@dataclass(frozen=True)
class _Work:
    """As much of a queued job as tells what it waits for."""

    pk: int
    site_id: int | None
    lock: str
    mutating: bool


def placed(job: Job, held: Gates, now: datetime, turns: Turns, *, waits: bool) -> Values:
    """Give the columns with which a job that is (or will be) QUEUED stands in line.

    `waits` says whether a job that it waits for has not come to a good end.
    """
    nothing: Values = {"blocked_by_id": None, "waiting_since": None}
    if job.scheduled_at > now:
        return {**nothing, "readiness": Readiness.LATER}
    if waits:
        return {**nothing, "readiness": Readiness.PARENT}
    values = {"turn": turns.take(job.customer_id, job.priority), "waiting_since": now}
    return {**values, **_in_line(job, held)}


def with_open_parents(jobs: Iterable[Job]) -> set[int]:
    """Give the keys of those that wait for a job which has not come to a good end."""
    waits = JobDependency.objects.filter(job_id__in=[job.pk for job in jobs])
    return set(waits.exclude(parent__status__in=SATISFIED).values_list("job_id", flat=True))


def leave_line(jobs: Iterable[Job], held: Gates) -> None:
    """Put the next of its kind in the place of each of these jobs, which are queued no more."""
    kinds = {
        (job.site_id, job.job_type)
        for job in jobs
        if job.lock == SiteLock.EXCLUSIVE and job.site_id is not None
    }
    for site_id, job_type in sorted(kinds):
        same = {"site_id": site_id, "job_type": job_type, "lock": SiteLock.EXCLUSIVE}
        if standing(*HEADS).filter(**same).exists():
            continue
        columns = ("id", "site_id", "lock", "mutating")
        behind = standing(Readiness.BEHIND).filter(**same).order_by(*ORDER)
        found = behind.values_list(*columns, named=False).first()
        if found is not None:
            successor = _Work(*found)
            _stored(successor.pk, _head(successor, held))


def close_sites(jobs: Iterable[Job]) -> None:
    """Have what conflicts with these jobs, which now keep their sites closed, wait for them."""
    for job in jobs:
        shut_out = _excluded_by(job)
        if shut_out is not None:
            ready = on_site(job.site_id, Readiness.READY).filter(shut_out)
            ready.update(readiness=Readiness.SITE, blocked_by_id=job.pk)


def open_sites(jobs: Iterable[Job], held: Gates) -> None:
    """Let what waited for these jobs, which keep their sites closed no more, get ready or wait for others."""
    left = [job.pk for job in jobs if job.site_id is not None and job.lock != SiteLock.NONE]
    if not left:
        return
    waiting = standing(Readiness.SITE).filter(blocked_by_id__in=left)
    kinds = waiting.values_list("site_id", "lock", "mutating").distinct()
    for site_id, lock, mutating in list(kinds):
        some = waiting.filter(site_id=site_id, lock=lock, mutating=mutating)
        some.update(**_head(_Work(0, site_id, lock, mutating), held))


def pause_site(site_id: int) -> None:
    """Take what is ready on a site out of the line. Its gate is locked and says that it is paused."""
    on_site(site_id, Readiness.READY).update(readiness=Readiness.PAUSED)


def resume_site(site_id: int, held: Gates) -> None:
    """Put what a pause held back in line again."""
    paused = on_site(site_id, Readiness.PAUSED)
    for lock, mutating in list(paused.values_list("lock", "mutating").distinct().order_by()):
        some = paused.filter(lock=lock, mutating=mutating)
        some.update(**_head(_Work(0, site_id, lock, mutating), held))


def on_site(site_id: int | None, state: Readiness) -> QuerySet[Job]:
    """Give the first of their kinds on one site that stand in line so."""
    return standing(*HEADS).filter(site=site_id, readiness=state)


def closers_of(site_ids: Iterable[int]) -> QuerySet[Job]:
    """Give the jobs that keep these sites closed."""
    return Job.objects.filter(site_id__in=site_ids, status__in=CLOSING).exclude(lock=SiteLock.NONE)


def blocker_of(job: "Job | _Work", closing: Iterable[Job]) -> Job | None:
    """Give the job among these that keeps this one from its site, or None."""
    for other in closing:
        if other.site_id == job.site_id and other.pk != job.pk and _excludes(other, job):
            return other
    return None


def store(job: Job, values: Values) -> None:
    """Write where a queued job stands in line; a row that has moved on is left alone."""
    _stored(job.pk, values)
    for name, value in values.items():
        setattr(job, name, value)


def _stored(job_id: int, values: Values) -> None:
    Job.objects.filter(pk=job_id, status=Status.QUEUED).update(**values)


def _in_line(job: Job, held: Gates) -> Values:
    if job.site_id is not None and job.lock == SiteLock.EXCLUSIVE:
        same = {"site_id": job.site_id, "job_type": job.job_type, "lock": SiteLock.EXCLUSIVE}
        ahead = standing(*HEADS).filter(**same, priority__lte=job.priority)
        if ahead.exclude(pk=job.pk).exists():
            return {"readiness": Readiness.BEHIND, "blocked_by_id": None}
    return _head(job, held)


def _head(job: "Job | _Work", held: Gates) -> Values:
    gate = held.get(job.site_id) if job.site_id is not None else None
    if gates.forbids(gate, job.lock, job.mutating):
        blocker = blocker_of(job, closers_of([job.site_id or 0]).order_by("pk"))
        if blocker is not None:
            return {"readiness": Readiness.SITE, "blocked_by_id": blocker.pk}
    paused = gate is not None and gate.paused
    return {"readiness": Readiness.PAUSED if paused else Readiness.READY, "blocked_by_id": None}


def _excludes(running: Job, asked: "Job | _Work") -> bool:
    return must_wait(running.lock, running.mutating, asked.lock, asked.mutating)


def _excluded_by(job: Job) -> Q | None:
    """Give the condition on queued jobs of the same site that this one shuts out; None for none."""
    shut_out = [
        Q(lock=lock, mutating=mutating)
        for lock in (SiteLock.EXCLUSIVE, SiteLock.SHARED)
        for mutating in (True, False)
        if must_wait(job.lock, job.mutating, lock, mutating)
    ]
    if job.site_id is None or not shut_out:
        return None
    condition = shut_out[0]
    for other in shut_out[1:]:
        condition |= other
    return condition

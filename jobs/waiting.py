"""Why a job is not running, in a sentence, for every place that shows jobs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from accounts.actor import Actor
from audit.clock import database_now
from jobs import pauses
from jobs.dependencies import OF_ANOTHER
from jobs.limits import Room, room
from jobs.models import Job, JobDependency, Pause, Worker
from jobs.pauses import Paused
from jobs.profile import SiteLock
from jobs.readiness import blocker_of, closers_of
from jobs.states import HEADS, SATISFIED, Readiness, Status
from sites.queries import SEES_ALL

# A worker that has missed this many beats is not counted as alive.
MISSED_BEATS = 4
Heads = dict[tuple[int | None, str], Job]


@dataclass(frozen=True)
class _Facts:
    """What is known about all jobs of one page, read at once."""

    now: datetime
    known: set[str]
    paused: Paused
    room: Room
    closing: list[Job]
    parents: dict[int, Job]
    heads: Heads
    sees_all: bool


def explain(jobs: Iterable[Job], actor: Actor | None = None) -> dict[int, str]:
    """Give the waiting reason of each queued job among these, by its key. A constant number of queries.

    A job of another customer is named only to an actor who sees all of them.
    """
    queued = [job for job in jobs if job.status == Status.QUEUED]
    if not queued:
        return {}
    facts = _facts(queued, sees_all=actor is not None and actor.kind in SEES_ALL)
    return {job.pk: _reason(job, facts) for job in queued}


def live_workers(now: datetime) -> "list[Worker]":
    """Give the workers that have polled lately."""
    silence = timedelta(seconds=settings.CHP_HEARTBEAT_SECONDS * MISSED_BEATS)
    return list(Worker.objects.filter(stopped_at=None, polled_at__gte=now - silence))


def _facts(queued: list[Job], *, sees_all: bool) -> _Facts:
    now = database_now()
    shut = {
        job.site_id for job in queued if job.readiness in (Readiness.SITE, Readiness.BEHIND) and job.site_id
    }
    return _Facts(
        now=now,
        known={job_type for worker in live_workers(now) for job_type in worker.job_types},
        paused=pauses.in_force(),
        room=room(),
        closing=list(closers_of(shut).select_related("site").order_by("pk")) if shut else [],
        parents=_open_parents([job.pk for job in queued if job.readiness == Readiness.PARENT]),
        heads=_heads({job.site_id for job in queued if job.readiness == Readiness.BEHIND and job.site_id}),
        sees_all=sees_all,
    )


def _open_parents(keys: list[int]) -> dict[int, Job]:
    pairs = JobDependency.objects.filter(job_id__in=keys).exclude(parent__status__in=SATISFIED)
    return {pair.job_id: pair.parent for pair in pairs.select_related("parent").order_by("-parent_id")}


def _heads(site_ids: set[int]) -> Heads:
    if not site_ids:
        return {}
    found = Job.objects.filter(site_id__in=site_ids, readiness__in=HEADS, lock=SiteLock.EXCLUSIVE)
    return {(job.site_id, job.job_type): job for job in found.select_related("site").order_by("-pk")}


def _reason(job: Job, facts: _Facts) -> str:
    if job.readiness == Readiness.LATER and job.scheduled_at > facts.now:
        because = f": {job.error_message}" if job.error_message else ""
        return f"due at {job.scheduled_at:%Y-%m-%d %H:%M:%S} UTC{because}"
    if job.readiness == Readiness.PARENT:
        parent = facts.parents.get(job.pk)
        return _waits_for(job, parent, facts) if parent else "next in turn"
    pause = facts.paused.holding(job.job_type, job.server_id, job.site_id)
    if pause is not None:
        return _held_back(pause, facts)
    if job.job_type not in facts.known:
        return f"no live worker knows type {job.job_type}" if facts.known else "no live worker"
    return _behind(job, facts) or facts.room.reason_against(job) or "next in turn"


def _waits_for(job: Job, parent: Job, facts: _Facts) -> str:
    if parent.customer_id != job.customer_id and not facts.sees_all:
        return f"waits for {OF_ANOTHER}"
    return f"waits for {parent.code} ({parent.job_type}, {parent.status})"


def _held_back(pause: Pause, facts: _Facts) -> str:
    if not facts.sees_all:
        # Who paused it, and why, is written for staff.
        return f"paused by the hosting company since {pause.since:%Y-%m-%d %H:%M} UTC"
    return f"paused by {pause.paused_by} since {pause.since:%Y-%m-%d %H:%M} UTC ({pause}): {pause.reason}"


def _behind(job: Job, facts: _Facts) -> str:
    if job.readiness not in (Readiness.SITE, Readiness.BEHIND):
        return ""
    blocker = blocker_of(job, facts.closing) or facts.heads.get((job.site_id, job.job_type))
    if blocker is None:
        return ""
    if blocker.customer_id != job.customer_id and not facts.sees_all:
        return f"behind {OF_ANOTHER}"
    word = "blocked by ORPHANED" if blocker.status == Status.ORPHANED else "behind"
    where = f" on {blocker.site}" if blocker.site else ""
    return f"{word} {blocker.code} ({blocker.job_type}, {blocker.status}{where})"

"""QUEUE: handing out work. One short transaction claims; conflicts and limits are exact inside it."""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from audit.clock import database_now
from jobs import transitions
from jobs.conflicts import must_wait
from jobs.events import Line
from jobs.limits import Room, room
from jobs.models import EventType, Job, Worker
from jobs.profile import SiteLock
from jobs.states import CLOSING, HELD, Status
from jobs.transitions import Move

# Any constant does, as long as every claimer takes the same one.
CLAIM_LOCK = 0x43_48_50_01
LOOK_AHEAD = 200


def claim(worker: Worker, places: int, job_types: Sequence[str]) -> list[Job]:
    """Claim up to `places` jobs for a worker. Each has a fresh epoch and token in its row.

    The claim lives in the row alone, never in the database session: a dropped connection frees nothing.
    """
    if places <= 0:
        return []
    with transaction.atomic():
        _serialise_claims()
        now = database_now()
        chosen = _choose(now, places, job_types)
        return transitions.apply([_claimed(job, worker, now) for job in chosen])


def held_jobs() -> QuerySet[Job]:
    """Give the jobs that a worker owns or that keep their site closed."""
    return Job.objects.filter(status__in=CLOSING)


def due_jobs(now: datetime, job_types: Sequence[str]) -> QuerySet[Job]:
    """Give queued jobs whose time has come, in the order in which they are handed out."""
    due = Job.objects.filter(status=Status.QUEUED, scheduled_at__lte=now, job_type__in=job_types)
    return due.order_by("priority", "scheduled_at", "pk")


def blocker_of(job: Job, closing: Sequence[Job]) -> Job | None:
    """Give the job that keeps this one from its site, or None."""
    for other in closing:
        if other.site_id == job.site_id and other.pk != job.pk and _excludes(other, job):
            return other
    return None


def _excludes(running: Job, asked: Job) -> bool:
    return must_wait(running.lock, running.mutating, asked.lock, asked.mutating)


def _serialise_claims() -> None:
    # SQLite's transaction is IMMEDIATE and so already alone. On PostgreSQL two claimers that each count
    # one of two places would both take it: the transaction's own advisory lock makes the count exact.
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIM_LOCK])


def _choose(now: datetime, places: int, job_types: Sequence[str]) -> list[Job]:
    closing = list(held_jobs())
    left: Room = room(job for job in closing if job.status in HELD)
    chosen: list[Job] = []
    for job in _candidates(now, job_types, closing, left):
        if len(chosen) == places or left.overall <= 0:
            break
        if left.reason_against(job.job_type) or blocker_of(job, [*closing, *chosen]):
            continue
        chosen.append(job)
        left = left.less(job.job_type)
    return chosen


def _candidates(now: datetime, job_types: Sequence[str], closing: Sequence[Job], left: Room) -> QuerySet[Job]:
    """Give due jobs without those that the limits or a closed site rule out, so that they fill no page."""
    full = [job_type for job_type, free in left.by_type.items() if free <= 0]
    alone = [job for job in closing if job.lock == SiteLock.EXCLUSIVE]
    shut = [job.site_id for job in alone if job.site_id is not None]
    changed = [job.site_id for job in alone if job.mutating and job.site_id is not None]
    due = due_jobs(now, job_types).exclude(job_type__in=full)
    due = due.exclude(Q(lock=SiteLock.EXCLUSIVE) & Q(site_id__in=shut))
    due = due.exclude(Q(lock=SiteLock.SHARED) & Q(site_id__in=changed))
    return due.select_related("customer").select_for_update(skip_locked=True, of=("self",))[:LOOK_AHEAD]


def _claimed(job: Job, worker: Worker, now: datetime) -> Move:
    values = {
        "worker_id": worker.pk,
        "worker_name": worker.name,
        "epoch": job.epoch + 1,
        "attempt": job.attempt + 1,
        "claim_token": f"{job.epoch + 1}:{secrets.token_hex(16)}",
        "started_at": now,
        "heartbeat_at": now,
        "deadline_at": now + timedelta(seconds=job.timeout_seconds),
        "completed_at": None,
        "progress_percent": 0,
        "progress_step": "",
        "error_code": "",
        "error_message": "",
    }
    line = Line(EventType.CLAIMED, f"by {worker.name}, attempt {job.attempt + 1} of {job.max_attempts}")
    return Move(job, Status.RUNNING, line, f"{worker.name} (worker)", "SYSTEM", values)


def beat(worker: Worker, tokens: Sequence[str]) -> set[str]:
    """Beat for all jobs of a worker in one statement; give the tokens that are still in force."""
    now = database_now()
    Worker.objects.filter(pk=worker.pk).update(polled_at=now)
    mine = Job.objects.filter(status__in=HELD, claim_token__in=tokens)
    mine.update(heartbeat_at=now)
    return set(mine.values_list("claim_token", flat=True))

"""Lost work: jobs whose worker no longer beats, and types that no installed code declares any more."""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from audit.clock import database_now
from jobs import registry, transitions
from jobs.events import Line
from jobs.models import ORDER, EventType, Job, JobDependency, Level
from jobs.profile import OnLost, SiteLock
from jobs.queries import held_jobs, standing
from jobs.states import CLOSING, HEADS, HELD, SATISFIED, Readiness, Status
from jobs.transitions import Held, Move

logger = logging.getLogger(__name__)
MOST_MENDED = 500
# What waits for one of these never starts.
DEAD = (Status.FAILED, Status.CANCELLED)
# How many held jobs one look of the sweeper reads.
PAGE = 500
UNKNOWN_TYPE_GRACE = timedelta(hours=1)
# A type that asks the journal is repeated after a loss, but a job that kills its workers is not for ever.
MOST_EPOCHS = 5


def sweep() -> list[Job]:
    """Rescue every held job without a recent heartbeat and end jobs of unknown type; give those changed.

    Safe to run in any number of processes at any time: each job is moved by compare and set.
    """
    return [*_rescue_stale(), *fail_unknown()]


def lose(job: Job, why: str, *, spent: bool = True) -> bool:
    """Move one held job whose worker is lost, by the policy in its row. False where it has moved on.

    `spent` is False where the worker was stopped on purpose: an interruption costs no attempt.
    """
    with transaction.atomic():
        held = locked(job)
        return held is not None and _move_lost(held, why, spent=spent)


def time_out(job: Job, why: str) -> bool:
    """Move one held job whose slot was ended because its deadline had passed. False where it has moved on."""
    message = f"timed out after {job.timeout_seconds} s: {why}"
    to, kind = Status.FAILED, EventType.TIMEOUT
    if job.mutating:
        to, kind = Status.ORPHANED, EventType.ORPHANED
        message = f"{message}; it is not known how far the work came: a person must decide"
    with transaction.atomic():
        held = locked(job)
        return held is not None and _give_up(held, to, Line(kind, message, Level.ERROR), "timed_out")


def hand_back(jobs: Collection[Job], why: str) -> None:
    """Put claimed jobs that were not begun back into the queue; no attempt is spent."""
    with transaction.atomic():
        held = locked_claims(jobs, going_back={job.pk for job in jobs})
        transitions.apply([_handed_back(job, why) for job in held.jobs], held)


def _handed_back(job: Job, why: str) -> Move:
    by = f"{job.worker_name} (worker)"
    if job.status == Status.CANCEL_REQUESTED:
        # Nobody else would look at it before its silence is noticed.
        line = Line(EventType.CANCELLED, f"called off before it was begun ({why})")
        return Move(job, Status.CANCELLED, line, by, "SYSTEM")
    line = Line(EventType.RETRY, f"{why}; nothing was done, queued again")
    return Move(job, Status.QUEUED, line, by, "SYSTEM", _unspent(job))


def _unspent(job: Job) -> dict[str, object]:
    return retry_values(job, spent=False, delay=0)


def locked(job: Job) -> Held | None:
    """Give the job's row, locked until the transaction ends, if this claim of it still is in force."""
    held = locked_claims([job], going_back={job.pk})
    return held if held.jobs else None


def locked_claims(jobs: Collection[Job], going_back: Collection[int]) -> Held:
    """Lock the rows of these jobs until the transaction ends; give those whose claim still is in force.

    `going_back` are the keys of those that may be queued again.
    """
    if all(job.brief for job in jobs):
        return transitions.hold_brief(jobs, going_back)
    claims = {(job.pk, job.claim_token) for job in jobs}
    held = transitions.hold([pk for pk, _ in claims])
    mine = [row for row in held.jobs if row.status in HELD and (row.pk, row.claim_token) in claims]
    return replace(held, jobs=mine)


def retry_values(job: Job, *, spent: bool, delay: float) -> dict[str, object]:
    """Give the columns of a job that goes back into the queue; an attempt not spent is given back."""
    attempt = job.attempt if spent else max(0, job.attempt - 1)
    return {"scheduled_at": database_now() + timedelta(seconds=delay), "attempt": attempt}


def retry_delay(job: Job) -> int:
    """Give the seconds to wait after the attempt that just ended; the last delay repeats."""
    delays = job.retry_delays
    return int(delays[min(job.attempt, len(delays)) - 1]) if delays else 0


def _rescue_stale() -> list[Job]:
    """Rescue page by page: what is exempt on one hides nothing on the next, and no cursor stays open."""
    now = database_now()
    held = held_jobs().filter(heartbeat_at__lt=now).order_by("heartbeat_at", "pk")
    rescued: list[Job] = []
    page = list(held[:PAGE])
    while page:
        rescued += [job for job in page if _is_stale(job, now) and lose(job, _silence(job, now))]
        last = page[-1]
        later = Q(heartbeat_at__gt=last.heartbeat_at) | Q(heartbeat_at=last.heartbeat_at, pk__gt=last.pk)
        page = list(held.filter(later)[:PAGE]) if len(page) == PAGE else []
    return rescued


def _is_stale(job: Job, now: datetime) -> bool:
    return (now - (job.heartbeat_at or now)).total_seconds() >= job.stale_seconds


def _silence(job: Job, now: datetime) -> str:
    silence = (now - (job.heartbeat_at or now)).total_seconds()
    return f"no heartbeat of {job.worker_name} for {silence:.0f} s"


def _move_lost(held: Held, why: str, *, spent: bool) -> bool:
    (job,) = held.jobs
    to, line, values = fate(job, f"worker lost ({why})", delay=0, spent=spent)
    return _give_up(held, to, line, "worker_lost", values)


def _give_up(
    held: Held, to: Status, line: Line, code: str, values: Mapping[str, object] | None = None
) -> bool:
    (job,) = held.jobs
    columns = {**(values or {}), "error_code": code, "error_message": line.message}
    found = registry.operations().get(job.job_type)
    if found is not None:
        found.settle_failure(job, line.message, in_doubt=to in (Status.QUEUED, Status.ORPHANED))
    return bool(transitions.apply([Move(job, to, line, "system (sweeper)", "SYSTEM", columns)], held))


def fate(job: Job, what: str, *, delay: float, spent: bool = True) -> tuple[Status, Line, dict[str, object]]:
    """Decide what becomes of lost work: state, event, columns. `delay` is seconds until a repeat."""
    what = what.rstrip(".")
    asks = job.on_lost == OnLost.ASK_JOURNAL
    if job.on_lost == OnLost.ORPHAN or (asks and job.epoch >= MOST_EPOCHS):
        message = f"{what}; it is not known how far the work came: a person must decide"
        return Status.ORPHANED, Line(EventType.ORPHANED, message, Level.ERROR), {}
    if job.status == Status.CANCEL_REQUESTED:
        return Status.CANCELLED, Line(EventType.CANCELLED, f"{what} after cancellation was asked"), {}
    # Work that asks the agent's journal first is not begun anew where it was done, so it spends no attempt.
    spent = spent and not asks
    if spent and job.attempt >= job.max_attempts:
        message = f"{what}; attempt {job.attempt} of {job.max_attempts} was the last"
        return Status.FAILED, Line(EventType.FAILED, message, Level.ERROR), {}
    line = Line(EventType.HEARTBEAT_LOST, f"{what}; queued again", Level.WARNING)
    return Status.QUEUED, line, retry_values(job, spent=spent, delay=delay)


def fail_unknown() -> list[Job]:
    """End jobs whose type no installed code declares, after a grace; give those ended.

    Only ready jobs are looked at: the others get ready some day, and no worker claims these.
    """
    old = database_now() - UNKNOWN_TYPE_GRACE
    ended = []
    for job_type in set(ready_types()) - set(registry.known_types()):
        rows = Job.objects.filter(readiness=Readiness.READY, job_type=job_type, created_at__lt=old)
        for job in rows.select_related("customer")[:100]:
            ended += _fail(job, f"unknown job type: {job.job_type}", "unknown_operation")
    return ended


def mend() -> int:
    """Put jobs in line again whose stored place no longer fits what is so; give how many.

    Everything that changes what a job waits for keeps its place up in the same transaction. This is for rows
    changed by hand and for faults: a job must not wait for ever for something that has passed.
    """
    wrong = set(_wrongly_waiting())
    for job_id in sorted(wrong):
        with transaction.atomic():
            _mend(transitions.hold([job_id]))
    return len(wrong)


def _mend(held: Held) -> None:
    for job in held.jobs:
        if job.status != Status.QUEUED:
            continue
        logger.warning("%s stood wrongly in line (%s); mended", job.code, job.readiness)
        dead = JobDependency.objects.filter(job=job, parent__status__in=DEAD).select_related("parent").first()
        if dead is None:
            transitions.line_up_anew(job)
        else:
            transitions.apply([transitions.called_off(job, dead.parent, "system (sweeper)", "SYSTEM")], held)


def _wrongly_waiting() -> Iterator[int]:
    shut = standing(Readiness.SITE)
    passed = shut.exclude(blocked_by__status__in=CLOSING).order_by("blocked_by_id")
    yield from passed.values_list("pk", flat=True)[:MOST_MENDED]
    waits = standing(Readiness.PARENT)
    parents = JobDependency.objects.filter(job_id=OuterRef("pk"))
    is_open = Exists(parents.exclude(parent__status__in=SATISFIED))
    is_dead = Exists(parents.filter(parent__status__in=DEAD))
    yield from waits.filter(~is_open | is_dead).values_list("pk", flat=True)[:MOST_MENDED]
    behind = standing(Readiness.BEHIND)
    for site_id, job_type in behind.values_list("site_id", "job_type").distinct():
        same = {"site_id": site_id, "job_type": job_type}
        if not standing(*HEADS).filter(**same, lock=SiteLock.EXCLUSIVE).exists():
            first = behind.filter(**same).order_by(*ORDER)
            yield from first.values_list("pk", flat=True)[:1]
    lost = standing(Readiness.NONE).filter(status=Status.QUEUED).order_by("pk")
    yield from lost.values_list("pk", flat=True)[:MOST_MENDED]


def ready_types() -> list[str]:
    """Give the types of ready jobs: one look at the index per type, however many jobs there are."""
    types: list[str] = []
    ready = Job.objects.filter(readiness=Readiness.READY).order_by("job_type")
    while True:
        later = ready.filter(job_type__gt=types[-1]) if types else ready
        found = later.values_list("job_type", flat=True).first()
        if found is None:
            return types
        types.append(found)


def _fail(job: Job, message: str, code: str) -> list[Job]:
    line = Line(EventType.FAILED, message, Level.ERROR)
    values = {"error_code": code, "error_message": message}
    with transaction.atomic():
        return transitions.apply([Move(job, Status.FAILED, line, "system (sweeper)", "SYSTEM", values)])

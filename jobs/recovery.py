"""Lost work: jobs whose worker no longer beats, and types that no installed code declares any more."""

from datetime import timedelta

from django.db import transaction

from audit.clock import database_now
from jobs import registry, transitions
from jobs.events import Line
from jobs.models import EventType, Job, Level
from jobs.profile import OnLost
from jobs.states import HELD, Status
from jobs.transitions import Move

UNKNOWN_TYPE_GRACE = timedelta(hours=1)
# A type that asks the journal is repeated after a loss, but a job that kills its workers is not for ever.
MOST_EPOCHS = 5


def sweep() -> list[Job]:
    """Rescue every held job without a recent heartbeat and end jobs of unknown type; give those changed.

    Safe to run in any number of processes at any time: each job is moved by compare and set.
    """
    return [*_rescue_stale(), *_fail_unknown()]


def lose(job: Job, why: str, *, spent: bool = True) -> bool:
    """Move one held job whose worker is lost, by the policy in its row. False where it has moved on.

    `spent` is False where the worker was stopped on purpose: an interruption costs no attempt.
    """
    with transaction.atomic():
        current = locked(job)
        return current is not None and _move_lost(current, why, spent=spent)


def locked(job: Job) -> Job | None:
    """Give the job's row, locked until the transaction ends, if this claim of it still is in force."""
    rows = Job.objects.select_related("customer", "site", "plan").select_for_update(of=("self",))
    return rows.filter(pk=job.pk, claim_token=job.claim_token, status__in=HELD).first()


def retry_values(job: Job, *, spent: bool, delay: float) -> dict[str, object]:
    """Give the columns of a job that goes back into the queue; an attempt not spent is given back."""
    attempt = job.attempt if spent else max(0, job.attempt - 1)
    return {"scheduled_at": database_now() + timedelta(seconds=delay), "attempt": attempt}


def retry_delay(job: Job) -> int:
    """Give the seconds to wait after the attempt that just ended; the last delay repeats."""
    delays = job.retry_delays
    return int(delays[min(job.attempt, len(delays)) - 1]) if delays else 0


def _rescue_stale() -> list[Job]:
    now = database_now()
    held = Job.objects.filter(status__in=HELD, heartbeat_at__lt=now).order_by("heartbeat_at")
    rescued = []
    for job in held.iterator(chunk_size=500):
        silence = (now - (job.heartbeat_at or now)).total_seconds()
        if silence < job.stale_seconds:
            continue
        if lose(job, f"no heartbeat of {job.worker_name} for {silence:.0f} s"):
            rescued.append(job)
    return rescued


def _move_lost(job: Job, why: str, *, spent: bool) -> bool:
    to, line, values = fate(job, f"worker lost ({why})", delay=0, spent=spent)
    values |= {"error_code": "worker_lost", "error_message": line.message}
    found = registry.operations().get(job.job_type)
    if found is not None:
        found.settle_failure(job, line.message, in_doubt=to in (Status.QUEUED, Status.ORPHANED))
    return bool(transitions.apply([Move(job, to, line, "system (sweeper)", "SYSTEM", values)]))


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


def _fail_unknown() -> list[Job]:
    known = registry.known_types()
    old = database_now() - UNKNOWN_TYPE_GRACE
    unknown = Job.objects.filter(status=Status.QUEUED, created_at__lt=old).exclude(job_type__in=known)
    ended = []
    for job in unknown.select_related("customer")[:100]:
        message = f"unknown job type: {job.job_type}"
        values = {"error_code": "unknown_operation", "error_message": message}
        line = Line(EventType.FAILED, message, Level.ERROR)
        with transaction.atomic():
            ended += transitions.apply([Move(job, Status.FAILED, line, "system (sweeper)", "SYSTEM", values)])
    return ended

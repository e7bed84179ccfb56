"""EXECUTION: one attempt of one job inside a slot, from the claim to the recorded end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction

from audit import trail
from audit.actions import Action
from audit.clock import database_now
from audit.redaction import clean_data, clean_text
from jobs import authorization, events, plan, recovery, registry, transitions
from jobs.context import SlotContext
from jobs.database import TROUBLE, insist
from jobs.events import Line
from jobs.exceptions import (
    AttemptFailed,
    CancelAsked,
    DeadlinePassed,
    NotStarted,
    OwnershipLost,
    Refused,
    WorkLost,
)
from jobs.models import EventType, Job, Level, PlanState
from jobs.operation import Operation, Payload, Result
from jobs.request import validated_payload
from jobs.states import Status
from jobs.transitions import Move

logger = logging.getLogger(__name__)
# Seconds until a job whose work was lost on the server is tried again.
AFTER_LOSS = 5.0
MOST_PAUSES = 20
Settle = Callable[[Job], None]


def _nothing(job: Job) -> None:
    """An end of which the operation has nothing to write."""


@dataclass(frozen=True)
class End:
    """How an attempt ended: the wished state, the event, columns, and what the operation writes with it."""

    to: Status
    line: Line
    values: dict[str, Any] = field(default_factory=dict)
    settle: Settle = _nothing


def run_attempt(job_id: int, token: str) -> None:
    """Run the attempt that this claim token stands for and record its end."""
    rows = Job.objects.select_related("site", "customer", "server", "plan")
    job = insist(lambda: rows.filter(pk=job_id, claim_token=token).first())
    if job is None:
        logger.warning("claim %s of job %s is no longer in force", token.partition(":")[0], job_id)
        return
    end = _attempt(job)
    if end is not None:
        insist(lambda: _record(job, end))


def _attempt(job: Job) -> End | None:
    try:
        operation = registry.operation(job.job_type)
        context = SlotContext(job)
    except Refused as error:
        return _failed(None, str(error), error.code)
    except OwnershipLost as error:
        logger.warning("%s: %s", job.code, error)
        return None
    try:
        return _run(job, operation, context)
    finally:
        context.close()


def _run(job: Job, operation: Operation, context: SlotContext) -> End | None:
    try:
        payload = _prepare(job, operation)
        context.event(f"{operation.title} of {job.site}", event_type=EventType.STARTED)
        result = operation.run(context, payload)
        operation.verify(context, payload, result)
        return _succeeded(operation, payload, result)
    except OwnershipLost as error:
        logger.warning("%s: %s", job.code, error)
        return None
    except NotStarted as error:
        return _not_started(job, error)
    except CancelAsked as error:
        return _cancelled(job, operation, error)
    except DeadlinePassed as error:
        return _timed_out(job, operation, error)
    except WorkLost as error:
        return _lost(job, operation, str(error))
    except Refused as error:
        return _failed(operation, str(error), error.code)
    except AttemptFailed as error:
        return _failed_or_retried(job, operation, error)
    except Exception as error:  # the outermost frame of an attempt: whatever it is, the job must end
        logger.exception("%s: the operation broke", job.code)
        return _broken(job, operation, context, error)


def _prepare(job: Job, operation: Operation) -> Payload:
    """Check everything again that was checked when the job was made: rights, payload, plan, references."""
    if job.site is None:
        raise Refused(f"{job.code} has no site.")
    authorization.require(authorization.requester_of(job), operation, job.site)
    payload = validated_payload(operation, job.payload)
    plan.require_valid(job, operation, payload)
    operation.revalidate(job, payload)
    return payload


def _succeeded(operation: Operation, payload: Payload, result: Result) -> End:
    stored = clean_data(result)
    return End(
        Status.SUCCESS,
        Line(EventType.SUCCESS, f"{operation.title} done and verified"),
        {"result": stored, "progress_percent": 100, "progress_step": "done"},
        lambda job: operation.settle(job, payload, result),
    )


def _without_result(
    operation: Operation | None, to: Status, line: Line, code: str, *, in_doubt: bool = False
) -> End:
    columns = {"error_code": code, "error_message": clean_text(line.message)}

    def settle(job: Job) -> None:
        if operation is not None:
            operation.settle_failure(job, columns["error_message"], in_doubt=in_doubt)

    return End(to, line, columns, settle)


def _failed(operation: Operation | None, message: str, code: str) -> End:
    return _without_result(operation, Status.FAILED, Line(EventType.FAILED, message, Level.ERROR), code)


def _failed_or_retried(job: Job, operation: Operation, error: AttemptFailed) -> End:
    if not error.retryable or job.attempt >= job.max_attempts:
        return _failed(operation, str(error), error.code)
    delay = recovery.retry_delay(job)
    message = f"attempt {job.attempt} of {job.max_attempts} failed: {error}; again in {delay} s"
    values = recovery.retry_values(job, spent=True, delay=delay)
    line = Line(EventType.RETRY, message, Level.WARNING)
    end = _without_result(operation, Status.QUEUED, line, error.code)
    return replace(end, values=end.values | values)


def _not_started(job: Job, error: NotStarted) -> End:
    kind = EventType.LOCK_BUSY if error.busy else EventType.RETRY
    # Claims that spent no attempt: the more of them, the longer the pause, up to MOST_PAUSES times the first.
    pauses = min(job.epoch - job.attempt + 1, MOST_PAUSES)
    delay = settings.CHP_BUSY_DELAY_SECONDS * pauses
    line = Line(kind, f"{error}; nothing was done, again in {delay:g} s", Level.WARNING)
    told = {"error_code": "not_started", "error_message": clean_text(str(error))}
    return End(Status.QUEUED, line, told | recovery.retry_values(job, spent=False, delay=delay))


def _cancelled(job: Job, operation: Operation, error: CancelAsked) -> End:
    if job.mutating and not error.stopped:
        message = f"{error}; the agent could not stop what it does to the site: a person must decide"
        line = Line(EventType.ORPHANED, message, Level.ERROR)
        return _without_result(operation, Status.ORPHANED, line, "cancelled", in_doubt=True)
    return _without_result(operation, Status.CANCELLED, Line(EventType.CANCELLED, str(error)), "cancelled")


def _timed_out(job: Job, operation: Operation, error: DeadlinePassed) -> End:
    if job.mutating and not error.stopped:
        message = f"{error}; the agent does not confirm that it stopped: a person must decide"
        line = Line(EventType.ORPHANED, message, Level.ERROR)
        return _without_result(operation, Status.ORPHANED, line, "timed_out", in_doubt=True)
    line = Line(EventType.TIMEOUT, str(error), Level.ERROR)
    return _without_result(operation, Status.FAILED, line, "timed_out")


def _lost(job: Job, operation: Operation, what: str) -> End:
    to, line, values = recovery.fate(job, what, delay=AFTER_LOSS)
    in_doubt = to in (Status.QUEUED, Status.ORPHANED)
    end = _without_result(operation, to, line, "work_lost", in_doubt=in_doubt)
    return replace(end, values=end.values | values)


def _broken(job: Job, operation: Operation, context: SlotContext, error: Exception) -> End:
    message = f"internal error: {clean_text(repr(error), 500)}"
    if job.mutating and context.acted:
        line = Line(EventType.ORPHANED, f"{message}; a person must decide", Level.ERROR)
        return _without_result(operation, Status.ORPHANED, line, "internal", in_doubt=True)
    return _failed(operation, message, "internal")


def _record(job: Job, end: End) -> None:
    """Record the end in one transaction; where the claim is no longer in force, as a late result only."""
    try:
        with transaction.atomic():
            if not _settle(job, end):
                _record_late(job, end)
    except TROUBLE:
        raise
    except Exception as error:  # what the operation wants to write cannot be written: the end still counts
        logger.exception("%s: its result could not be settled", job.code)
        with transaction.atomic():
            _settle(job, _unsettled(job, error))


def _settle(job: Job, end: End) -> bool:
    current = recovery.locked(job)
    if current is None:
        return False
    end.settle(current)
    to, line = end.to, end.line
    if current.status == Status.CANCEL_REQUESTED and to == Status.QUEUED:
        # Cancellation wins over a further attempt (queue D4); work that has ended first keeps its end.
        to, line = Status.CANCELLED, Line(EventType.CANCELLED, f"cancelled instead of: {line.message}")
    if current.plan is not None and to != Status.QUEUED:
        current.plan.state = PlanState.USED
        current.plan.save(update_fields=["state"])
    worker = f"{current.worker_name} (worker)"
    return bool(transitions.apply([Move(current, to, line, worker, "SYSTEM", end.values)]))


def _unsettled(job: Job, error: Exception) -> End:
    kind = "database" if isinstance(error, DatabaseError) else "internal"
    message = f"the work ended but its result could not be stored ({kind}): {clean_text(repr(error), 500)}"
    to = Status.ORPHANED if job.mutating else Status.FAILED
    event = EventType.ORPHANED if job.mutating else EventType.FAILED
    values = {"error_code": "not_settled", "error_message": message}
    return End(to, Line(event, message, Level.ERROR), values)


def _record_late(job: Job, end: End) -> None:
    message = f"late result of claim {job.epoch} ignored: {end.to} ({end.line.message})"
    events.append(job, [Line(EventType.LATE_RESULT, message, Level.WARNING)], database_now())
    trail.record(
        trail.Entry(
            Action.JOB_RESULT_LATE,
            f"{job.worker_name} (worker)",
            "SYSTEM",
            tenant=job.customer.code if job.customer else "",
            target=job.code,
            reason=message,
            result="ignored",
        )
    )

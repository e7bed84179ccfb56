"""EXECUTION: one attempt of one job inside a slot, from the claim to the recorded end."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction

from audit import trail
from audit.actions import Action
from audit.clock import database_now
from audit.plain_text import guarded
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
from jobs.queries import HELD_SQL, fetch
from jobs.request import validated_payload
from jobs.states import Status
from jobs.transitions import Move

logger = logging.getLogger(__name__)
# Seconds until a job whose work was lost on the server is tried again.
AFTER_LOSS = 5.0
MOST_PAUSES = 20
# A hand of brief jobs that takes longer is cut short; ends of brief jobs wait for each other at most so long.
HAND_SECONDS = 1.0
FLUSH_SECONDS = 0.1
Settle = Callable[[Job], None]
# A claimed job: its key and the token of the claim.
Order = tuple[int, str]


def _nothing(job: Job) -> None:
    """An end of which the operation has nothing to write."""


@dataclass(frozen=True)
class End:
    """How an attempt ended: the wished state, the event, columns, and what the operation writes with it.

    `before` are lines of the history that were not written yet.
    """

    to: Status
    line: Line
    values: dict[str, Any] = field(default_factory=dict)
    settle: Settle = _nothing
    before: tuple[Line, ...] = ()


def run_attempt(job_id: int, token: str) -> None:
    """Run the attempt that this claim token stands for and record its end."""
    run_hand([(job_id, token)])


def run_hand(orders: Sequence[Order], begun: Callable[[int], None] = lambda position: None) -> None:
    """Run the attempts of a hand, one after another, and record their ends.

    `begun` is told the position of each as it begins. Only brief jobs come several at a time: their ends are
    recorded together, within FLUSH_SECONDS. Where a hand takes longer than HAND_SECONDS, what was not begun
    is handed back, so that another slot may take it.
    """
    hand = _Hand(insist(lambda: _claimed(orders)))
    started = time.monotonic()
    for position, (job_id, _) in enumerate(orders):
        job = hand.jobs.get(job_id)
        if job is None:
            continue
        if position and time.monotonic() - started > HAND_SECONDS:
            break
        begun(position)
        hand.run(job)
    hand.flush()
    rest = list(hand.jobs.values())
    if rest:
        insist(lambda: recovery.hand_back(rest, "another job of the same slot took long"))


def _claimed(orders: Sequence[Order]) -> dict[int, Job]:
    rows = fetch([job_id for job_id, _ in orders], HELD_SQL, ("site", "customer", "server", "plan"))
    found = {job.pk: job for job in rows}
    known = set(orders)
    in_force = {pk: job for pk, job in found.items() if (pk, job.claim_token) in known}
    for pk, _ in orders:
        if pk not in in_force:
            logger.warning("the claim of job %s is no longer in force", pk)
    return in_force


class _Hand:
    """The jobs that are still to be begun, and the ends that are still to be recorded."""

    def __init__(self, jobs: dict[int, Job]) -> None:
        self.jobs = jobs
        self._ends: list[tuple[Job, End]] = []
        self._fetched = time.monotonic()
        self._oldest = 0.0

    def run(self, job: Job) -> None:
        """Run one attempt and keep its end; record those that have waited long enough."""
        del self.jobs[job.pk]
        end = _attempt(job, self._fetched)
        if end is not None:
            self._oldest = self._oldest if self._ends else time.monotonic()
            self._ends.append((job, end))
        if self._ends and time.monotonic() - self._oldest > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Record the ends, for as long as the database takes to let it."""
        ends, self._ends = self._ends, []
        if ends:
            insist(lambda: _record(ends))


def _attempt(job: Job, fetched: float) -> End | None:
    try:
        operation = registry.operation(job.job_type)
        context = SlotContext(job, fetched)
    except Refused as error:
        return _failed(None, str(error), error.code)
    except OwnershipLost as error:
        logger.warning("%s: %s", job.code, error)
        return None
    try:
        end = _run(job, operation, context)
    finally:
        context.close()
    return replace(end, before=context.unwritten) if end is not None else None


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
    message = f"internal error: {_words(error)}"
    if job.mutating and context.acted:
        line = Line(EventType.ORPHANED, f"{message}; a person must decide", Level.ERROR)
        return _without_result(operation, Status.ORPHANED, line, "internal", in_doubt=True)
    return _failed(operation, message, "internal")


def _record(ends: Sequence[tuple[Job, End]]) -> None:
    """Record ends in one transaction; where a claim is no longer in force, as a late result only.

    Where what one operation wants to write cannot be written, each end is recorded by itself.
    """
    try:
        with transaction.atomic():
            _settle(ends)
    except TROUBLE:
        raise
    except Exception as error:  # what the operation wants to write cannot be written: the end still counts
        if len(ends) > 1:
            for one in ends:
                _record_alone(one)
            return
        ((job, _),) = ends
        logger.exception("%s: its result could not be settled", job.code)
        with transaction.atomic():
            _settle([(job, _unsettled(job, error))])


def _record_alone(one: tuple[Job, End]) -> None:
    insist(lambda: _record([one]))


def _settle(ends: Sequence[tuple[Job, End]]) -> None:
    back = {job.pk for job, end in ends if end.to == Status.QUEUED}
    held = recovery.locked_claims([job for job, _ in ends], going_back=back)
    current = {row.pk: row for row in held.jobs}
    moves = [_settled(current[job.pk], end) for job, end in ends if job.pk in current]
    transitions.apply(moves, held)
    late = _late([(job, end) for job, end in ends if job.pk not in current])
    if late:
        _record_late(late)


def _late(ends: Sequence[tuple[Job, End]]) -> list[tuple[Job, End]]:
    """Give those whose job went another way. Not: recorded, but the answer was lost with the connection."""
    columns = ("pk", "epoch", "status", "error_message")
    rows = Job.objects.filter(pk__in=[job.pk for job, _ in ends]).values_list(*columns) if ends else ()
    recorded = set(rows)
    return [
        (job, end)
        for job, end in ends
        if (job.pk, job.epoch, end.to.value, end.values.get("error_message", "")) not in recorded
    ]


def _settled(job: Job, end: End) -> Move:
    """Let the operation write what is true now, and give the move that goes with it."""
    end.settle(job)
    to, line = end.to, end.line
    if job.status == Status.CANCEL_REQUESTED and to == Status.QUEUED:
        # Cancellation wins over a further attempt (queue D4); work that has ended first keeps its end.
        to, line = Status.CANCELLED, Line(EventType.CANCELLED, f"cancelled instead of: {line.message}")
    if job.plan is not None and to != Status.QUEUED:
        job.plan.state = PlanState.USED
        job.plan.save(update_fields=["state"])
    return Move(job, to, line, f"{job.worker_name} (worker)", "SYSTEM", end.values, end.before)


def _words(error: Exception) -> str:
    """Give what an error says of itself, whatever it does when asked."""
    return clean_text(guarded(lambda: repr(error), type(error).__name__), 500)


def _unsettled(job: Job, error: Exception) -> End:
    kind = "database" if isinstance(error, DatabaseError) else "internal"
    message = f"the work ended but its result could not be stored ({kind}): {_words(error)}"
    to = Status.ORPHANED if job.mutating else Status.FAILED
    event = EventType.ORPHANED if job.mutating else EventType.FAILED
    values = {"error_code": "not_settled", "error_message": message}
    return End(to, Line(event, message, Level.ERROR), values)


def _record_late(late: Sequence[tuple[Job, End]]) -> None:
    told = [
        (job, f"late result of claim {job.epoch} ignored: {end.to} ({end.line.message})") for job, end in late
    ]
    lines = [(job, Line(EventType.LATE_RESULT, message, Level.WARNING)) for job, message in told]
    events.write(lines, database_now())
    trail.record(*[_late_entry(job, message) for job, message in told])


def _late_entry(job: Job, message: str) -> trail.Entry:
    return trail.Entry(
        Action.JOB_RESULT_LATE,
        f"{job.worker_name} (worker)",
        "SYSTEM",
        tenant=job.customer.code if job.customer else "",
        target=job.code,
        reason=message,
        result="ignored",
    )

"""The one door through which a job changes its state: compare and set, with event and audit entry.

Lock order, everywhere: pause and limits, site lock, job, what the operation settles, audit head. The audit
entries are the last statement before the commit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from audit import trail, transactions
from audit.actions import Action
from audit.clock import database_now
from jobs import events
from jobs.events import Line
from jobs.exceptions import IllegalMove
from jobs.models import Job, JobEvent
from jobs.states import Status, may_move

AUDITED: dict[Status, Action] = {
    Status.QUEUED: Action.JOB_REQUEUED,
    Status.RUNNING: Action.JOB_STARTED,
    Status.CANCEL_REQUESTED: Action.JOB_CANCEL_REQUESTED,
    Status.SUCCESS: Action.JOB_SUCCEEDED,
    Status.FAILED: Action.JOB_FAILED,
    Status.CANCELLED: Action.JOB_CANCELLED,
    Status.ORPHANED: Action.JOB_ORPHANED,
    Status.RESOLVED: Action.JOB_RESOLVED,
}


@dataclass(frozen=True)
class Move:
    """One wanted change of one job.

    `job` carries the state and the claim token that are expected in the row; `values` are other columns
    that change with it.
    """

    job: Job
    to: Status
    line: Line
    by: str
    by_kind: str
    values: Mapping[str, Any] = field(default_factory=dict)


def apply(moves: Iterable[Move]) -> list[Job]:
    """Make the moves whose job still stands as expected; give those jobs, refreshed in memory.

    Must be called inside a transaction. A job that has moved on meanwhile is left alone and not given back.
    Raises IllegalMove for a move that the table of states does not have.
    """
    if not transactions.is_open():
        raise IllegalMove("A state changes only inside a transaction.")
    now = database_now()
    made = [move for move in moves if _compare_and_set(move, now)]
    JobEvent.objects.bulk_create([events.written(move.job, move.line, now) for move in made])
    if made:
        trail.record(*[_entry(move) for move in made])
    return [move.job for move in made]


def _compare_and_set(move: Move, now: datetime) -> bool:
    job = move.job
    if not may_move(job.status, move.to):
        raise IllegalMove(f"{job.code} cannot go from {job.status} to {move.to}.")
    values: dict[str, Any] = {"status": move.to, **_times(move.to, now), **move.values}
    expected = Job.objects.filter(pk=job.pk, status=job.status, claim_token=job.claim_token)
    if expected.update(**values) != 1:
        return False
    for name, value in values.items():
        setattr(job, name, value)
    return True


def _times(to: Status, now: datetime) -> dict[str, Any]:
    if to in (Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.RESOLVED):
        # An ended job has no owner: a late word of its worker finds no token to match.
        return {"completed_at": now, "claim_token": "", "deadline_at": None}
    if to == Status.QUEUED:
        return {"claim_token": "", "deadline_at": None, "heartbeat_at": None, "worker_id": None}
    if to == Status.ORPHANED:
        return {"claim_token": ""}
    return {}


def _entry(move: Move) -> trail.Entry:
    job = move.job
    return trail.Entry(
        AUDITED[move.to],
        move.by,
        move.by_kind,
        tenant=job.customer.code if job.customer else "",
        target=job.code,
        reason=move.line.message,
        result=move.to,
        data={"type": job.job_type, "site": job.site_id, "attempt": job.attempt, "epoch": job.epoch},
    )

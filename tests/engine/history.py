"""What happened to the jobs, read back from rows and events: their moves, and how long they held a place."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from jobs.models import EventType, Job, JobEvent
from jobs.states import CLOSING, HELD, Status

CHUNK = 2_000
# For events that do not say from where to where: what they mean by themselves.
MEANING: dict[str, Status] = {
    EventType.CLAIMED: Status.RUNNING,
    EventType.RETRY: Status.QUEUED,
    EventType.LOCK_BUSY: Status.QUEUED,
    EventType.HEARTBEAT_LOST: Status.QUEUED,
    EventType.CANCEL_REQUESTED: Status.CANCEL_REQUESTED,
    EventType.TIMEOUT: Status.FAILED,
    EventType.ORPHANED: Status.ORPHANED,
    EventType.SUCCESS: Status.SUCCESS,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELLED: Status.CANCELLED,
    EventType.RESOLVED: Status.RESOLVED,
}
Data = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What the checks need of a job's row."""

    pk: int
    code: str
    job_type: str
    status: str
    epoch: int
    site: int | None
    server: int | None
    lock: str
    mutating: bool
    result: Any
    is_marked: bool


@dataclass(frozen=True, order=True)
class Moment:
    """A place in both orders of events: the database's time, and the event's key."""

    at: datetime
    key: int


@dataclass(frozen=True)
class Move:
    """One change of state. `origin` is empty where the event does not tell it."""

    moment: Moment
    epoch: int
    origin: str
    to: str
    data: Data


@dataclass(frozen=True)
class History:
    """A job's row and all its moves in order."""

    job: Row
    moves: tuple[Move, ...]

    @property
    def claimed_epochs(self) -> list[int]:
        """The epochs of its claims, in order."""
        return [move.epoch for move in self.moves if move.to == Status.RUNNING]


@dataclass(frozen=True)
class Hold:
    """From a claim on: when the worker's place was free again, and when the site. None: not yet.

    `place` is the slot that had the job; without word of it, each hold counts as a place of its own.
    """

    job: Row
    claimed: Moment
    released: Moment | None
    opened: Moment | None
    place: tuple[str, int]


def histories() -> Iterator[History]:
    """Give each job with its moves, by key. Jobs must not be moved meanwhile."""
    rows = {row.pk: row for row in _rows()}
    for pk, events in groupby(_events(), key=itemgetter(0)):
        yield History(rows.pop(pk), _moves(list(events)))
    for row in rows.values():
        yield History(row, ())


def holds(history: History) -> Iterator[Hold]:
    """Give the times during which the job had a worker's place or kept its site closed."""
    moves = history.moves
    for number, move in enumerate(moves):
        if move.to == Status.RUNNING:
            later = moves[number + 1 :]
            yield Hold(
                history.job,
                move.moment,
                _first_outside(later, HELD),
                _first_outside(later, CLOSING),
                _place(history.job, move),
            )


def _rows() -> Iterator[Row]:
    columns = ("pk", "job_type", "status", "epoch", "site_id", "server_id", "lock", "mutating", "result")
    for *values, payload in Job.objects.order_by("pk").values_list(*columns, "payload").iterator(CHUNK):
        pk, *others = values
        yield Row(pk, f"JOB-{pk:06d}", *others, is_marked=bool(payload.get("mark")))


def _events() -> Iterator[tuple[int, int, datetime, int, str, Data]]:
    columns = ("job_id", "pk", "at", "epoch", "event_type", "data")
    return JobEvent.objects.order_by("job_id", "pk").values_list(*columns).iterator(CHUNK)


def _moves(events: list[tuple[int, int, datetime, int, str, Data]]) -> tuple[Move, ...]:
    told = [event for event in events if "to" in event[5] and event[4] != EventType.CREATED]
    if told:
        return tuple(_move(event, event[5]["to"]) for event in told)
    return tuple(_move(event, MEANING[event[4]]) for event in events if event[4] in MEANING)


def _move(event: tuple[int, int, datetime, int, str, Data], to: str) -> Move:
    _, key, at, epoch, _, data = event
    return Move(Moment(at, key), epoch, data.get("from", ""), to, data)


def _first_outside(moves: tuple[Move, ...], states: tuple[Status, ...]) -> Moment | None:
    return next((move.moment for move in moves if move.to not in states), None)


def _place(job: Row, claim: Move) -> tuple[str, int]:
    if "worker" in claim.data and "place" in claim.data:
        return str(claim.data["worker"]), int(claim.data["place"])
    return f"{job.code} by itself", claim.epoch

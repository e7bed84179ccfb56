"""The one door through which jobs change their state: compare and set, with events and audit entries.

What follows from a change happens in the same transaction: the site's gate, who is ready next, what becomes
of jobs that wait for this one. Lock order, everywhere: pause and limits, gates of sites, jobs, what an
operation settles, audit head. The audit entries are the last statement before the commit.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction

from audit import trail, transactions
from audit.actions import Action
from audit.clock import database_now
from jobs import bell, dependencies, events, gates, readiness, statements
from jobs.events import Line
from jobs.exceptions import IllegalMove
from jobs.gates import Gates
from jobs.models import EventType, Job, Level
from jobs.profile import SiteLock
from jobs.statements import among
from jobs.states import CLOSING, ENDED, HELD, Readiness, Status, may_move
from jobs.turns import Turns

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
MOST_TRIES = 100
# By key: state and claim token of locked rows.
Rows = dict[int, tuple[str, str]]
_ENDING = (Status.FAILED, Status.CANCELLED)
_FIELDS = {field.attname: field for field in Job._meta.concrete_fields}
_UPDATE = "UPDATE jobs_job SET {columns} WHERE id {keys} AND status = %s AND claim_token = %s"
_LOCK = "SELECT id, status, claim_token FROM jobs_job WHERE id {keys} ORDER BY id {locking}"


@dataclass(frozen=True)
class Move:
    """One wanted change of one job.

    `job` carries the state and the claim token that are expected in the row; `values` are other columns
    that change with it; `before` are lines of its history that come first.
    """

    job: Job
    to: Status
    line: Line
    by: str
    by_kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[Line, ...] = ()


@dataclass(frozen=True)
class _Made:
    """A move that was made, and the state that it came from."""

    move: Move
    origin: Status


@dataclass(frozen=True)
class Held:
    """Rows that are locked until the transaction ends, with all that a move of them needs besides.

    `gates` are those of their sites; `family` are the jobs that wait for them, directly or not.
    """

    jobs: list[Job]
    gates: Gates
    family: list[Job]


def apply(moves: Iterable[Move], held: Held | None = None) -> list[Job]:
    """Make the moves whose job still stands as expected; give those jobs, refreshed in memory.

    Must be called inside a transaction. A job that has moved on meanwhile is left alone and not given back;
    `held` says that all of them were locked and read in this transaction, by `hold` or a claim. Raises
    IllegalMove for a move that the table of states does not have.
    """
    wanted = list(moves)
    if not transactions.is_open():
        raise IllegalMove("A state changes only inside a transaction.")
    for move in wanted:
        if not may_move(move.job.status, move.to):
            raise IllegalMove(f"{move.job.code} cannot go from {move.job.status} to {move.to}.")
    if held is None:
        held = _hold_as_expected(wanted)
        standing = {id(job) for job in held.jobs}
        wanted = [move for move in wanted if id(move.job) in standing]
    now = database_now()
    _require_gates(wanted, held.gates)
    made = _make(wanted, held.gates, now)
    followed = _follow(made, held.family, held.gates, now) if held.family else []
    _tell([*made, *followed], now)
    return [one.move.job for one in made]


def hold(jobs: Collection[int]) -> Held:
    """Lock rows, and before them all that a move of them would lock first; give them fresh."""
    rows = Job.objects.filter(pk__in=jobs)
    sites = rows.order_by().values_list("site_id", flat=True)
    _, held, family = _lock_with_family(jobs, jobs, lambda: list(sites))
    related = rows.select_related("customer", "site", "server", "plan").select_for_update(of=("self",))
    return Held(list(related.order_by("pk")), held, family)


def hold_brief(jobs: Collection[Job], going_back: Collection[int]) -> Held:
    """Lock the rows of brief jobs; give copies of those that still are held by this claim.

    Nothing of such a row but its state can have changed since it was claimed. `going_back` are the keys of
    those that will be queued again, for which the gates of their sites are needed too. Copies: what is
    repeated after trouble with the database must find the claims as they were.
    """
    keys = [job.pk for job in jobs]
    sites = [job.site_id for job in jobs if job.lock != SiteLock.NONE or job.pk in going_back]
    rows, held, family = _lock_with_family(keys, keys, lambda: sites)
    mine = []
    for job in jobs:
        status, _ = rows.get(job.pk, ("", ""))
        if status in HELD and rows[job.pk] == (status, job.claim_token):
            mine.append(copy(job))
            mine[-1].status = status
    return Held(mine, held, family)


def _hold_as_expected(moves: list[Move]) -> Held:
    ending = [move.job.pk for move in moves if _touches_others(move)]
    keys = [move.job.pk for move in moves]
    rows, held, family = _lock_with_family(keys, ending, lambda: _sites_changed(moves))
    standing = [
        job for job in (move.job for move in moves) if rows.get(job.pk) == (job.status, job.claim_token)
    ]
    return Held(standing, held, family)


def _lock_with_family(
    jobs: Collection[int], ending: Collection[int], sites: Callable[[], Collection[int | None]]
) -> tuple[Rows, Gates, list[Job]]:
    """Lock gates and rows of these jobs, and of all that wait, directly or not, for those that are ending.

    Who submits a job that waits for another locks that one's row. So once the rows of the whole family are
    locked it can grow no more. If it has grown until then, all is let go of and locked anew: the gates of
    those who came meanwhile come before the rows.
    """
    for _ in range(MOST_TRIES):
        family = dependencies.descendants(ending)
        with _let_go_on(_Grown):
            held = gates.lock([*sites(), *(job.site_id for job in family)])
            rows = lock_rows({*jobs, *(job.pk for job in family)})
            if connection.vendor == "postgresql":
                now = dependencies.descendants(ending)
                if {job.pk for job in now} != {job.pk for job in family}:
                    raise _Grown
                family = now
            return rows, held, family
    raise OperationalError("jobs that wait for these are submitted faster than they can be locked")


class _Grown(Exception):
    """More jobs wait for those that are being locked than when that began."""


@contextmanager
def _let_go_on(error: type[Exception]) -> Iterator[None]:
    """Let go of what was locked within this block where it ends with this error, and go on behind it."""
    if connection.vendor != "postgresql":
        # There a transaction is alone from its beginning.
        yield
        return
    with suppress(error), transaction.atomic():
        yield


def _require_gates(moves: list[Move], held: Gates) -> None:
    """Lock what was not known to be needed: the gate of a site to which work without a lock goes back."""
    missing = [site for site in _sites_changed(moves) if site is not None and site not in held]
    if missing:
        held.update(gates.lock(missing))


def _touches_others(move: Move) -> bool:
    return move.to in ENDED or (move.to == Status.QUEUED and move.job.status in _ENDING)


def _sites_changed(moves: Iterable[Move]) -> list[int | None]:
    """Give the sites whose gate or line a move changes. Work without a site lock only needs it to get in."""
    return [
        move.job.site_id
        for move in moves
        if move.to == Status.QUEUED
        or (move.job.lock != SiteLock.NONE and (move.job.status in CLOSING) != (move.to in CLOSING))
        or (move.job.lock == SiteLock.EXCLUSIVE and move.job.status == Status.QUEUED)
    ]


def _make(moves: list[Move], held: Gates, now: datetime) -> list[_Made]:
    made = _compare_and_set(moves, now)
    left_line = [one.move.job for one in made if one.origin == Status.QUEUED]
    left_site = [one.move.job for one in made if _opens_site(one)]
    closing = [one.move.job for one in made if one.move.to == Status.RUNNING]
    locked = [job for job in (*left_site, *closing) if job.lock != SiteLock.NONE]
    gates.recount(held, (job.site_id for job in locked))
    readiness.open_sites(left_site, held)
    readiness.close_sites(closing)
    readiness.leave_line(left_line, held)
    queued = [one.move.job for one in made if one.move.to == Status.QUEUED]
    get_in_line(queued, held, now)
    # Whoever was called off may have made room for the next of its kind.
    passed_on = any(one.origin == Status.QUEUED and one.move.to in ENDED for one in made)
    if queued or passed_on or any(job.lock != SiteLock.NONE for job in left_site):
        bell.ring()
    return made


def get_in_line(jobs: Collection[Job], held: Gates, now: datetime) -> None:
    """Store where these queued jobs stand. Their rows are locked and the gates of their sites held."""
    if not jobs:
        return
    waiting = readiness.with_open_parents(jobs)
    turns = Turns()
    for job in jobs:
        readiness.store(job, readiness.placed(job, held, now, turns, waits=job.pk in waiting))


def line_up_anew(job: Job) -> None:
    """Store where one queued job, which is held (see `hold`), really stands."""
    held = gates.lock([job.site_id])
    get_in_line([job], held, database_now())
    bell.ring()


def _opens_site(one: _Made) -> bool:
    return one.origin in CLOSING and one.move.to not in CLOSING


def _compare_and_set(moves: list[Move], now: datetime) -> list[_Made]:
    """Change locked rows, those with the same change in one statement."""
    alike: dict[str, list[tuple[Move, dict[str, Any]]]] = defaultdict(list)
    for move in moves:
        values = {"status": move.to, **_columns(move.to, now), **move.values}
        alike[repr((move.job.status, move.job.claim_token, values))].append((move, values))
    made = [_Made(move, Status(move.job.status)) for group in alike.values() for move, _ in group]
    for group in alike.values():
        _write([move.job for move, _ in group], group[0][1])
    return made


def lock_rows(keys: Collection[int]) -> Rows:
    """Lock the rows of jobs until the transaction ends, by their keys; give state and claim token of each."""
    if not keys:
        return {}
    which, values = among(keys)
    sql = _LOCK.format(keys=which, locking="FOR UPDATE" if connection.vendor == "postgresql" else "")
    with connection.cursor() as cursor:
        statements.run(cursor, sql, values)
        return {pk: (status, token) for pk, status, token in cursor.fetchall()}


def _write(jobs: list[Job], values: dict[str, Any]) -> None:
    # Not by the queryset's update(): on the way of every job, and several times faster so.
    first = jobs[0]
    which, keys = among([job.pk for job in jobs])
    columns = ", ".join(f"{_FIELDS[name].column} = %s" for name in values)
    stored = [_FIELDS[name].get_db_prep_save(value, connection) for name, value in values.items()]
    with connection.cursor() as cursor:
        sql = _UPDATE.format(columns=columns, keys=which)
        statements.run(cursor, sql, [*stored, *keys, str(first.status), first.claim_token])
        if cursor.rowcount != len(jobs):
            raise IllegalMove("Rows that are locked have changed.")
    for job in jobs:
        for name, value in values.items():
            setattr(job, name, value)


def _columns(to: Status, now: datetime) -> dict[str, Any]:
    out = {"readiness": Readiness.NONE, "blocked_by_id": None}
    if to in ENDED:
        # An ended job has no owner: a late word of its worker finds no token to match.
        return {**out, "completed_at": now, "claim_token": "", "deadline_at": None}
    if to == Status.QUEUED:
        # Where it stands in line is worked out once it has left its site.
        left = {
            "claim_token": "",
            "deadline_at": None,
            "heartbeat_at": None,
            "worker_id": None,
            "place": None,
        }
        return {**left, "readiness": Readiness.LATER, "completed_at": None, "cancelled_with_id": None}
    if to == Status.ORPHANED:
        return {**out, "claim_token": ""}
    return out


def _follow(made: list[_Made], family: list[Job], held: Gates, now: datetime) -> list[_Made]:
    """Carry what happened to parents on to the jobs that wait for them."""
    rows = Job.objects.select_related("customer").filter(pk__in=[job.pk for job in family])
    family = list(rows.select_for_update(of=("self",)).order_by("pk"))
    parents = dependencies.ancestry(family)
    followed: dict[int, Move] = {}
    for one in made:
        for move in _consequences(one, family, parents):
            followed.setdefault(move.job.pk, move)
    more = _make(list(followed.values()), held, now)
    get_in_line(dependencies.released(family, parents), held, now)
    bell.ring()
    return more


def called_off(job: Job, root: Job, by: str, by_kind: str) -> Move:
    """Give the move of a queued job that waits for one which has failed or was called off."""
    name = dependencies.named_for(job, root)
    message = f"called off with {name}, which it waits for and which is {root.status}"
    line = Line(EventType.CANCELLED, message, Level.WARNING, {"parent": name})
    values = {"cancelled_with_id": root.pk, "error_code": "parent_ended", "error_message": message}
    return Move(job, Status.CANCELLED, line, by, by_kind, values)


def _consequences(one: _Made, family: list[Job], parents: dict[int, set[int]]) -> list[Move]:
    root, to = one.move.job, one.move.to
    by = one.move
    if to in _ENDING:
        off = dependencies.to_call_off(root, family, parents)
        return [called_off(job, root, by.by, by.by_kind) for job in off]
    values = {"error_code": "", "error_message": ""}
    back, causes = dependencies.to_revive(root, family, parents)
    for job_id, cause in causes.items():
        Job.objects.filter(pk=job_id, status=Status.CANCELLED).update(cancelled_with_id=cause)
    return [Move(job, Status.QUEUED, _revived(job, root), by.by, by.by_kind, values) for job in back]


def _revived(job: Job, root: Job) -> Line:
    name = dependencies.named_for(job, root)
    return Line(EventType.RETRY, f"revived with {name}, which is {root.status}", data={"parent": name})


def _tell(made: list[_Made], now: datetime) -> None:
    lines = []
    for one in made:
        job, line = one.move.job, one.move.line
        told = replace(line, data={**line.data, "from": one.origin.value, "to": one.move.to.value})
        lines += [(job, earlier) for earlier in one.move.before] + [(job, told)]
    events.write(lines, now)
    if made:
        trail.record(*[_entry(one.move) for one in made])


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

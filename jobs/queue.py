"""QUEUE: handing out work. One short transaction claims; conflicts and limits are exact inside it.

Whether a job can be claimed is stored in its row, so a claim reads the head of an index: for each type with
room its first ready jobs. What it costs does not depend on how many jobs are finished, blocked, of lower
priority or scheduled for later.
"""

import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Min

from audit.clock import database_now
from jobs import gates, limits, pauses, readiness, registry, transitions
from jobs.events import Line
from jobs.gates import Gates
from jobs.limits import Room, room
from jobs.models import ORDER, EventType, Job, Worker
from jobs.pauses import Paused
from jobs.profile import SiteLock
from jobs.queries import held_jobs
from jobs.states import Readiness, Status
from jobs.transitions import Move
from sites.models import Server

# One worker at a time puts due jobs in line.
DUE_LOCK = 0x43_48_50_02
# How many brief jobs one slot is handed at once, and how many ordinary ones are looked at beyond the places.
HAND = 64
SPARE = 8
MOST_PAGES = 50
# How many due jobs get in line in one transaction.
DUE_BATCH = 100
_PROBE = """
    SELECT * FROM (
        SELECT id, site_id, lock, priority, turn, scheduled_at FROM {table}
        WHERE readiness = 'READY' AND job_type = %s {on_server} {passed}
        ORDER BY priority, turn, scheduled_at, id LIMIT %s
    ) AS probe
"""
_FIRST = """
    SELECT id, site_id, lock FROM ({parts}) AS found ORDER BY priority, turn, scheduled_at, id LIMIT %s
"""


def claim(worker: Worker, places: Collection[int], job_types: Sequence[str]) -> list[Job]:
    """Claim jobs for the free places of a worker: one ordinary or several brief ones for each.

    `job.place` says for which place. Each has a fresh epoch and token in its row. The claim lives in the row
    alone, never in the database session: a dropped connection frees nothing.
    """
    if not places:
        return []
    get_due_in_line()
    with transaction.atomic():
        limits.lock()
        paused = pauses.in_force()
        if paused.everything:
            return []
        choice = _Choice(worker.pk, places, paused)
        return transitions.apply(_claims(choice, worker)) if choice.among(job_types) else []


def get_due_in_line() -> int:
    """Put queued jobs whose time has come in line; give how many. One look at an index where none has."""
    later = Job.objects.filter(readiness=Readiness.LATER)
    if not later.filter(scheduled_at__lte=database_now()).exists():
        return 0
    with transaction.atomic():
        if not _is_mine(DUE_LOCK):
            return 0
        now = database_now()
        due = later.filter(scheduled_at__lte=now).order_by("scheduled_at", "pk")[:DUE_BATCH]
        seen = list(due.values_list("pk", "site_id"))
        held = gates.lock(site_id for _, site_id in seen)
        rows = later.filter(pk__in=[pk for pk, _ in seen]).select_for_update()
        jobs = list(rows.order_by("priority", "scheduled_at", "pk"))
        transitions.get_in_line(jobs, held, now)
        return len(jobs)


def _is_mine(lock: int) -> bool:
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock])
        return bool(cursor.fetchone()[0])


def next_due() -> float | None:
    """Give the seconds until the next job's time comes, or None where none is scheduled."""
    first = Job.objects.filter(readiness=Readiness.LATER).aggregate(first=Min("scheduled_at"))["first"]
    return None if first is None else (first - database_now()).total_seconds()


def beat(tokens: Collection[str]) -> set[str]:
    """Beat for all jobs of a worker in one statement; give the tokens that are still in force."""
    mine = held_jobs().filter(claim_token__in=set(tokens))
    mine.update(heartbeat_at=database_now())
    return set(mine.order_by().values_list("claim_token", flat=True).distinct())


def strays(worker: Worker, tokens: Collection[str]) -> list[Job]:
    """Give the jobs that this worker holds by claims that it does not know of."""
    return list(held_jobs().filter(worker_id=worker.pk).exclude(claim_token__in=set(tokens)))


class _Choice:
    """The jobs of one claim: picked in order, each where the limits and its site leave it room."""

    def __init__(self, worker: UUID, places: Collection[int], paused: Paused) -> None:
        self._worker = worker
        self._room: Room = room()
        # Whatever the worker believes: a place that holds a job is not handed another.
        self._free = [place for place in places if not self._room.is_taken((worker, place))]
        self._hands: dict[int, list[Job]] = {}
        self._paused = paused
        self._gates: Gates = {}
        self._seen: set[int] = set()
        self.chosen: list[Job] = []

    def among(self, job_types: Sequence[str]) -> list[Job]:
        """Choose among the ready jobs of these types."""
        for _ in range(MOST_PAGES):
            page, is_last = self._page(job_types)
            for job in page:
                self._consider(job)
            if is_last or not self._wants_more():
                break
        return self.chosen

    def _wants_more(self) -> bool:
        return bool(self._free) or any(len(hand) < HAND for hand in self._hands.values())

    def _page(self, job_types: Sequence[str]) -> tuple[list[Job], bool]:
        """Give the next ready jobs in order, their rows and the gates of their sites locked; and if all."""
        many = len(self._free) + SPARE + HAND * (len(self._free) + len(self._hands))
        probes = list(self._probes(job_types))
        found = _first_ready(probes, many, self._seen) if probes else []
        if not found:
            return [], True
        ids = [pk for pk, _, _ in found]
        self._seen |= set(ids)
        # A gate that somebody holds is passed over: whoever holds it rings the bell when its job is done.
        self._gates |= gates.lock((site for _, site, lock in found if lock != SiteLock.NONE), only_free=True)
        rows = Job.objects.filter(pk__in=ids, readiness=Readiness.READY).select_related("customer")
        ordered = rows.select_for_update(skip_locked=True, of=("self",)).order_by(*ORDER)
        return list(ordered), len(found) < many

    def _probes(self, job_types: Sequence[str]) -> Iterator[tuple[str, int | None]]:
        """Give type and server (None for any) of everything that has room."""
        if self._room.is_full() and not self._hands:
            return
        for job_type in job_types:
            if job_type in self._paused.types or self._room.is_type_full(job_type):
                continue
            heavy = registry.operation(job_type).profile.heavy
            shut = self._paused.servers | self._room.full_servers(job_type, heavy)
            if not shut:
                yield job_type, None
            else:
                yield from ((job_type, server) for server in self._servers if server not in shut)

    @cached_property
    def _servers(self) -> list[int]:
        return list(Server.objects.order_by("pk").values_list("pk", flat=True))

    def _consider(self, job: Job) -> None:
        if not self._may_enter(job):
            return
        place = self._place_for(job)
        if place is None:
            return
        job.place = place
        self._room.take(job, (self._worker, place))
        self.chosen.append(job)

    def _may_enter(self, job: Job) -> bool:
        if job.lock == SiteLock.NONE or job.site_id is None:
            return True
        gate = self._gates.get(job.site_id)
        if gate is None or gates.forbids(gate, job.lock, job.mutating):
            return False
        return readiness.blocker_of(job, self.chosen) is None

    def _place_for(self, job: Job) -> int | None:
        if self._free and not self._room.reason_against(job):
            place = self._free.pop(0)
            if job.brief:
                self._hands[place] = [job]
            return place
        hands = sorted(self._hands.items(), key=lambda item: len(item[1])) if job.brief else []
        for place, hand in hands:
            if len(hand) < HAND and not self._room.reason_against(job, (self._worker, place)):
                hand.append(job)
                return place
        return None

    def seconds_at(self, job: Job) -> int:
        """Give the seconds for all that its place was handed with a job: they run one after another."""
        hand = self._hands.get(job.place or 0, [job]) if job.brief else [job]
        return sum(one.timeout_seconds for one in hand)


def _first_ready(
    probes: list[tuple[str, int | None]], many: int, seen: set[int]
) -> list[tuple[int, int, str]]:
    """Give (key, site, lock) of the first ready jobs of all probes together, in order, without those seen."""
    table, parts, values = Job._meta.db_table, [], []
    passed = f"AND id NOT IN ({', '.join(['%s'] * len(seen))})" if seen else ""
    for job_type, server in probes:
        on_server = "AND server_id = %s" if server is not None else ""
        values += [job_type, *([server] if server is not None else []), *seen, many]
        parts.append(_PROBE.format(table=table, on_server=on_server, passed=passed))
    with connection.cursor() as cursor:
        cursor.execute(_FIRST.format(parts=" UNION ALL ".join(parts)), [*values, many])
        return list(cursor.fetchall())


def _claims(choice: "_Choice", worker: Worker) -> list[Move]:
    # Read here, with the gates held: no job that has left one of these sites has a later time.
    now, token = database_now(), secrets.token_hex(16)
    return [_claimed(job, worker, now, token, choice.seconds_at(job)) for job in choice.chosen]


def _claimed(job: Job, worker: Worker, now: datetime, token: str, seconds: int) -> Move:
    values = {
        "worker_id": worker.pk,
        "worker_name": worker.name,
        "place": job.place,
        "epoch": job.epoch + 1,
        "attempt": job.attempt + 1,
        "claim_token": token,
        "started_at": now,
        "heartbeat_at": now,
        "deadline_at": now + timedelta(seconds=seconds),
        "completed_at": None,
        "progress_percent": 0,
        "progress_step": "",
        "error_code": "",
        "error_message": "",
    }
    message = f"by {worker.name}, attempt {job.attempt + 1} of {job.max_attempts}"
    line = Line(EventType.CLAIMED, message, data={"worker": str(worker.pk), "place": job.place})
    return Move(job, Status.RUNNING, line, f"{worker.name} (worker)", "SYSTEM", values)

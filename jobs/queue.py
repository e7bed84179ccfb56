"""QUEUE: handing out work. One short transaction claims; conflicts and limits are exact inside it.

Whether a job can be claimed is stored in its row, so a claim reads the head of an index: for each type with
room its first ready jobs. What it costs does not depend on how many jobs are finished, blocked, of lower
priority or scheduled for later.
"""

import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from audit.clock import database_now
from jobs import gates, limits, pauses, policies, registry, statements, transitions
from jobs.conflicts import must_wait
from jobs.events import Line
from jobs.gates import Gates
from jobs.limits import Room, room
from jobs.models import EventType, Job, Worker
from jobs.pauses import Paused
from jobs.profile import SiteLock
from jobs.queries import HELD_SQL, fetch, held_jobs
from jobs.states import Readiness, Status
from jobs.transitions import Held, Move
from sites.models import Server

# One worker at a time puts due jobs in line.
DUE_LOCK = 0x43_48_50_02
# How many brief jobs one slot is handed at once, and how many ordinary ones are looked at beyond the places.
HAND = 64
SPARE = 8
MOST_PAGES = 50
# How many due jobs get in line in one transaction.
DUE_BATCH = 100
_LOOK = f"""
    SELECT (SELECT 1 FROM jobs_job WHERE readiness = 'READY' ORDER BY priority, turn LIMIT 1),
           (SELECT COUNT(*) FROM (SELECT DISTINCT worker_id, place FROM jobs_job WHERE {HELD_SQL}) AS places),
           (SELECT MIN(scheduled_at) FROM jobs_job WHERE readiness = 'LATER')
"""  # noqa: S608 - of constants
# The columns of Candidate, and those of the order.
_PROBE = """
    SELECT * FROM (
        SELECT id, site_id, server_id, job_type, lock, mutating, heavy, brief, timeout_seconds,
               priority, turn, scheduled_at
        FROM jobs_job WHERE readiness = 'READY' AND job_type = %s {on_server} {passed}
        ORDER BY priority, turn, scheduled_at, id LIMIT {many}
    ) AS probe
"""
_FIRST = """
    SELECT id, site_id, server_id, job_type, lock, mutating, heavy, brief, timeout_seconds
    FROM ({parts}) AS found ORDER BY priority, turn, scheduled_at, id LIMIT {many}
"""


def claim(worker: Worker, places: Collection[int], job_types: Sequence[str]) -> list[Job]:
    """Claim jobs for the free places of a worker: one ordinary or several brief ones for each.

    `job.place` says for which place. Each has a fresh epoch and token in its row. The claim lives in the row
    alone, never in the database session: a dropped connection frees nothing.
    """
    if not places:
        return []
    outlook = look()
    if outlook.due_in is not None and outlook.due_in <= 0 and get_due_in_line():
        outlook = look()
    if not outlook.is_promising:
        return []
    with transaction.atomic():
        paused, beside = _locked_view()
        if paused.everything:
            return []
        choice = _Choice(worker.pk, places, paused, beside)
        if not choice.among(job_types):
            return []
        return transitions.apply(_claims(choice, worker), Held(choice.jobs, choice.gates, []))


def _locked_view() -> tuple[Paused, Room]:
    """Lock the handing out of work, and then look what holds it back and what room there is."""
    alone = [limits.LOCK] if connection.vendor == "postgresql" else []
    asked = [*alone, (pauses.HELD_BACK, ()), (policies.LIMITED, ()), (limits.RUNNING, ())]
    *_, paused, limited, running = statements.together(asked)
    return pauses.held_back(paused), limits.room_beside(policies.limits_from(limited), running)


@dataclass(frozen=True)
class Outlook:
    """What can be seen of the queue without a lock: many workers may look at once in vain.

    `due_in` is the seconds until the next scheduled job's time comes, None where none is scheduled.
    """

    has_ready: bool
    places_taken: int
    due_in: float | None

    @property
    def is_promising(self) -> bool:
        """Whether a claim may find anything."""
        return self.has_ready and self.places_taken < settings.MAX_WORKERS


def look() -> Outlook:
    """Look at the queue: three ends of indexes, in one statement."""
    with connection.cursor() as cursor:
        statements.run(cursor, _LOOK)
        ready, places, first = cursor.fetchone()
    if isinstance(first, str):
        first = datetime.fromisoformat(first).replace(tzinfo=UTC)
    due = None if first is None else (first - database_now()).total_seconds()
    return Outlook(ready is not None, places, due)


def get_due_in_line() -> int:
    """Put queued jobs whose time has come in line; give how many."""
    later = Job.objects.filter(readiness=Readiness.LATER)
    with transaction.atomic():
        if not _is_mine(DUE_LOCK):
            return 0
        now = database_now()
        first = later.filter(scheduled_at__lte=now).order_by("scheduled_at", "pk")[:DUE_BATCH]
        seen = list(first.values_list("pk", "site_id"))
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


def beat(tokens: Collection[str]) -> set[str]:
    """Beat for all jobs of a worker in one statement; give the tokens that are still in force."""
    if not tokens:
        return set()
    mine = held_jobs().filter(claim_token__in=set(tokens))
    with transaction.atomic():
        # By key, and past those that are just being ended, which need no beat.
        rows = mine.order_by("pk").select_for_update(skip_locked=True)
        keys = list(rows.values_list("pk", flat=True))
        Job.objects.filter(pk__in=keys).update(heartbeat_at=database_now())
    return set(mine.order_by().values_list("claim_token", flat=True).distinct())


def strays(worker: Worker, tokens: Collection[str]) -> list[Job]:
    """Give the jobs that this worker holds by claims that it does not know of."""
    mine = held_jobs().filter(worker_id=worker.pk).order_by()
    return list(mine.exclude(claim_token__in=set(tokens)))


@dataclass(frozen=True)
class Candidate:
    """As much of a ready job as it takes to choose: where it would run, and what it excludes."""

    pk: int
    site_id: int | None
    server_id: int | None
    job_type: str
    lock: str
    mutating: bool
    heavy: str
    brief: bool
    timeout_seconds: int

    @property
    def needs_gate(self) -> bool:
        """Whether it keeps its site closed while it runs."""
        return self.lock != SiteLock.NONE and self.site_id is not None

    def is_shut_out_by(self, other: "Candidate") -> bool:
        """Whether another one, running on the same site, would exclude it."""
        shut_out = must_wait(other.lock, bool(other.mutating), self.lock, bool(self.mutating))
        return self.site_id == other.site_id and shut_out


@dataclass(frozen=True)
class Probe:
    """One look at the index: a type, a server or any, and how many jobs at most."""

    job_type: str
    server: int | None
    many: int


class _Choice:
    """The jobs of one claim: picked in order, each where the limits and its site leave it room."""

    def __init__(self, worker: UUID, places: Collection[int], paused: Paused, beside: Room) -> None:
        self._worker = worker
        self._paused = paused
        self._room = beside
        # Whatever the worker believes: a place that holds a job is not handed another.
        self._places = [place for place in places if not self._room.is_taken((worker, place))]
        self._at: dict[int, list[Candidate]] = {}
        self._seen: set[int] = set()
        self.gates: Gates = {}
        self.jobs: list[Job] = []

    def among(self, job_types: Sequence[str]) -> list[Job]:
        """Choose among the ready jobs of these types; give them, their rows and gates locked."""
        for _ in range(MOST_PAGES):
            page, is_last = self._page(job_types)
            picked = [
                (candidate, place) for candidate in page if (place := self._take(candidate)) is not None
            ]
            self._lock(dict(picked))
            if is_last or not self._wants_more():
                break
        return self.jobs

    def seconds_at(self, job: Job) -> int:
        """Give the seconds for all that its place was handed with a job: they run one after another."""
        return sum(candidate.timeout_seconds for candidate in self._at[job.place or 0])

    def _wants_more(self) -> bool:
        return any(place not in self._at or self._is_open_hand(place) for place in self._places)

    def _is_open_hand(self, place: int) -> bool:
        hand = self._at[place]
        return len(hand) < HAND and all(candidate.brief for candidate in hand)

    def _page(self, job_types: Sequence[str]) -> tuple[list[Candidate], bool]:
        """Give the next ready jobs in order, and whether these are the last."""
        probes = list(self._probes(job_types))
        found = _first_ready(probes, self._seen) if probes else []
        self._seen |= {candidate.pk for candidate in found}
        return found, len(found) < min((probe.many for probe in probes), default=1)

    def _probes(self, job_types: Sequence[str]) -> Iterator[Probe]:
        """Give where to look: everything that has room."""
        if self._room.is_full() and not self._at:
            return
        for job_type in job_types:
            if job_type in self._paused.types or self._room.is_type_full(job_type):
                continue
            profile = registry.operation(job_type).profile
            many = len(self._places) * HAND if profile.brief else len(self._places) + SPARE
            shut = self._paused.servers | self._room.full_servers(job_type, profile.heavy)
            if not shut:
                yield Probe(job_type, None, many)
            else:
                yield from (Probe(job_type, pk, many) for pk in self._servers if pk not in shut)

    @cached_property
    def _servers(self) -> list[int]:
        return list(Server.objects.order_by("pk").values_list("pk", flat=True))

    def _take(self, candidate: Candidate) -> int | None:
        """Give the place that a candidate gets, and count it there; None where it can have none."""
        chosen = (other for hand in self._at.values() for other in hand)
        if candidate.needs_gate and any(candidate.is_shut_out_by(other) for other in chosen):
            return None
        place = self._place_for(candidate)
        if place is not None:
            self._at.setdefault(place, []).append(candidate)
            self._room.take(candidate, (self._worker, place))
        return place

    def _place_for(self, candidate: Candidate) -> int | None:
        free = [place for place in self._places if place not in self._at]
        if free and not self._room.reason_against(candidate):
            return free[0]
        hands = [place for place in self._at if self._is_open_hand(place)] if candidate.brief else []
        for place in sorted(hands, key=lambda place: len(self._at[place])):
            if not self._room.reason_against(candidate, (self._worker, place)):
                return place
        return None

    def _lock(self, picked: dict[Candidate, int]) -> None:
        """Lock the gates and rows of what was picked; let go of what somebody else holds or has changed.

        What is passed over so is looked at again at the next look, at the latest the next poll.
        """
        self.gates |= gates.lock((one.site_id for one in picked if one.needs_gate), only_free=True)
        wanted = [one for one in picked if not one.needs_gate or self._is_let_in(one)]
        rows = fetch([one.pk for one in wanted], "jobs_job.readiness = 'READY'", ("customer",), lock=True)
        found = {job.pk: job for job in rows}
        for one, place in picked.items():
            if one.pk in found:
                found[one.pk].place = place
                self.jobs.append(found[one.pk])
        if len(found) < len(picked):
            self._let_go()

    def _is_let_in(self, candidate: Candidate) -> bool:
        gate = self.gates.get(candidate.site_id or 0)
        return gate is not None and not gates.forbids(gate, candidate.lock, candidate.mutating)

    def _let_go(self) -> None:
        """Count anew, from what is really had."""
        had = {job.pk for job in self.jobs}
        kept = {place: [one for one in hand if one.pk in had] for place, hand in self._at.items()}
        self._at = {place: hand for place, hand in kept.items() if hand}
        self._room = room()
        for place, hand in self._at.items():
            for one in hand:
                self._room.take(one, (self._worker, place))


def _first_ready(probes: list[Probe], seen: set[int]) -> list[Candidate]:
    """Give the first ready jobs of all probes together, in the order in which they are handed out."""
    parts: list[str] = []
    values: list[Any] = []
    passed = f"AND id NOT IN ({', '.join(['%s'] * len(seen))})" if seen else ""
    for probe in probes:
        on_server = [] if probe.server is None else [probe.server]
        values += [probe.job_type, *on_server, *seen]
        where = "AND server_id = %s" if on_server else ""
        parts.append(_PROBE.format(on_server=where, passed=passed, many=probe.many))
    sql = _FIRST.format(parts=" UNION ALL ".join(parts), many=max(probe.many for probe in probes))
    with connection.cursor() as cursor:
        # The first page of a claim has the same text each time; what follows is rare.
        execute = cursor.execute if seen else partial(statements.run, cursor)
        execute(sql, values)
        return [Candidate(*row) for row in cursor.fetchall()]


def _claims(choice: "_Choice", worker: Worker) -> list[Move]:
    # Read here, with the gates held: no job that has left one of these sites has a later time.
    now, token = database_now(), secrets.token_hex(16)
    return [_claimed(job, worker, now, token, choice.seconds_at(job)) for job in choice.jobs]


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

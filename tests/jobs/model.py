"""A simple model of the engine, written from DESIGN sections 3 and 4, and the operations that it knows.

Nothing of the engine is used here but the names of states. `tests.jobs.test_model` drives both.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from jobs.operation import Context, Result
from jobs.profile import Category, Load, OnLost, Priority, Profile, SiteLock
from jobs.states import Readiness, Status
from tests.jobs.sample_operations import Sample, SampleChange, SampleLook, SamplePayload, misbehave

# What the next run of a job does, by its key; "stop" is a checkpoint.
BEHAVIOUR: dict[int, str] = {}


class _Behaving(Sample):
    def run(self, context: Context, payload: SamplePayload) -> Result:
        how = BEHAVIOUR.get(context.job.pk, payload.how)
        if how == "stop":
            context.checkpoint("asked")
        misbehave(how, payload)
        return {"epoch": context.job.epoch}


class ModelCopy(_Behaving):
    """Alone, changes nothing, three attempts: as BACKUP stands. Heavy on the disk."""

    profile: ClassVar[Profile] = Profile(
        category=Category.MAINTENANCE,
        lock=SiteLock.EXCLUSIVE,
        mutating=False,
        priority=Priority.NORMAL,
        attempts=3,
        timeout=3600,
        on_lost=OnLost.REQUEUE,
        retry_delays=(0, 60),
        disk=Load.HEAVY,
    )


class ModelChange(_Behaving, SampleChange):
    """As RESTORE stands."""


class ModelLook(_Behaving, SampleLook):
    """As VERIFY stands."""


class ModelProvision(_Behaving):
    """Alone, changes its site, and asks the journal when it was lost: as PROVISION stands."""

    name: ClassVar[str] = "SAMPLE_PROVISION"
    title: ClassVar[str] = "sample provision"
    profile: ClassVar[Profile] = Profile(
        category=Category.MAINTENANCE,
        lock=SiteLock.EXCLUSIVE,
        mutating=True,
        priority=Priority.NORMAL,
        attempts=1,
        timeout=600,
        on_lost=OnLost.ASK_JOURNAL,
    )


class ModelProbe(_Behaving):
    """Beside everything, and brief: as HEALTH stands."""

    name: ClassVar[str] = "SAMPLE_PROBE"
    title: ClassVar[str] = "sample probe"
    profile: ClassVar[Profile] = Profile(
        category=Category.OBSERVATION,
        lock=SiteLock.NONE,
        mutating=False,
        priority=Priority.NORMAL,
        attempts=2,
        timeout=600,
        on_lost=OnLost.REQUEUE,
        brief=True,
    )


OPERATIONS = (ModelCopy, ModelChange, ModelLook, ModelProvision, ModelProbe)
PROFILES: dict[str, Profile] = {declared.name: declared.profile for declared in OPERATIONS}
KINDS = tuple(PROFILES)

HELD = (Status.RUNNING, Status.CANCEL_REQUESTED)
CLOSING = (*HELD, Status.ORPHANED)
GOOD = (Status.SUCCESS, Status.RESOLVED)
BAD = (Status.FAILED, Status.CANCELLED)
STALE = timedelta(seconds=150)
AGING = timedelta(hours=6)
# At its fifth claim, work that asks the journal is no longer repeated.
MOST_EPOCHS = 5
Order = tuple[int, int, datetime, int]
Group = tuple[object, ...]


@dataclass
class Twin:
    """What the model knows of one job. `line` is where it stands: later, parent, behind, head, or nothing."""

    pk: int
    kind: str
    site: int
    customer: int
    server: int
    priority: int
    scheduled_at: datetime
    parents: frozenset[int] = frozenset()
    status: Status = Status.QUEUED
    line: str = ""
    attempt: int = 0
    epoch: int = 0
    place: int = 0
    worker: int = 0
    heartbeat_at: datetime | None = None
    deadline_at: datetime | None = None
    waiting_since: datetime | None = None
    cancelled_with: int | None = None

    @property
    def profile(self) -> Profile:
        return PROFILES[self.kind]

    @property
    def is_exclusive(self) -> bool:
        return self.profile.lock is SiteLock.EXCLUSIVE


@dataclass(frozen=True)
class Ceilings:
    """The limits of one example. Absent: none."""

    overall: int = 4
    by_type: Mapping[str, int] = field(default_factory=dict)
    per_server: int = 4
    by_type_on_server: Mapping[str, int] = field(default_factory=dict)
    heavy: int = 2

    def of(self, twin: Twin) -> list[tuple[Group, int]]:
        """Give the groups that a job counts for, each with its limit."""
        found: list[tuple[Group, int]] = [
            (("all",), self.overall),
            (("server", twin.server), self.per_server),
        ]
        if twin.kind in self.by_type:
            found.append((("type", twin.kind), self.by_type[twin.kind]))
        if twin.kind in self.by_type_on_server:
            found.append((("both", twin.kind, twin.server), self.by_type_on_server[twin.kind]))
        found += [(("heavy", name, twin.server), self.heavy) for name in twin.profile.heavy]
        return found


def excludes(running: Twin, asked: Twin) -> bool:
    """Whether the first, which keeps its site closed, keeps the second from it (DESIGN, Conflict)."""
    locks = {running.profile.lock, asked.profile.lock}
    if running.site != asked.site or running is asked or SiteLock.NONE in locks:
        return False
    if locks == {SiteLock.EXCLUSIVE}:
        return True
    return locks == {SiteLock.EXCLUSIVE, SiteLock.SHARED} and (
        running.profile.mutating or asked.profile.mutating
    )


class Model:
    """All jobs of one example, and what holds them back."""

    def __init__(self, now: datetime, ceilings: Ceilings) -> None:
        self.now = now
        self.ceilings = ceilings
        self.jobs: dict[int, Twin] = {}
        self.everything_paused = False
        self.types_paused: set[str] = set()
        self.sites_paused: set[int] = set()
        self.servers_paused: set[int] = set()

    # --- What is so ------------------------------------------------------------------------------
    def in_state(self, *states: Status) -> list[Twin]:
        return [twin for twin in self.jobs.values() if twin.status in states]

    def blockers(self, twin: Twin) -> set[int]:
        """Give the jobs that keep this one from its site."""
        return {other.pk for other in self.in_state(*CLOSING) if excludes(other, twin)}

    def waits(self, twin: Twin) -> bool:
        return any(self.jobs[pk].status not in GOOD for pk in twin.parents)

    def readiness(self, twin: Twin) -> Readiness:
        """Give what must be stored in its row."""
        if twin.status != Status.QUEUED:
            return Readiness.NONE
        if twin.line != "head":
            return {"later": Readiness.LATER, "parent": Readiness.PARENT, "behind": Readiness.BEHIND}[
                twin.line
            ]
        if self.blockers(twin):
            return Readiness.SITE
        return Readiness.PAUSED if twin.site in self.sites_paused else Readiness.READY

    def gate(self, site: int) -> tuple[int, int, int]:
        """Give how many exclusive, mutating and shared jobs keep a site closed."""
        closing = [twin.profile for twin in self.in_state(*CLOSING) if twin.site == site]
        count = Counter(profile.lock for profile in closing)
        changes = [one for one in closing if one.lock is SiteLock.EXCLUSIVE and one.mutating]
        return count[SiteLock.EXCLUSIVE], len(changes), count[SiteLock.SHARED]

    def is_held_back(self, twin: Twin) -> bool:
        """Whether a pause that is no site's holds it back."""
        return self.everything_paused or twin.kind in self.types_paused or twin.server in self.servers_paused

    # --- Standing in line ------------------------------------------------------------------------
    def stand(self, twin: Twin) -> None:
        """Put a queued job where it belongs."""
        twin.waiting_since = None
        if twin.scheduled_at > self.now:
            twin.line = "later"
        elif self.waits(twin):
            twin.line = "parent"
        else:
            ahead = [one for one in self._heads(twin) if one.priority <= twin.priority]
            twin.line = "behind" if twin.is_exclusive and ahead else "head"
            twin.waiting_since = self.now

    def add(self, twin: Twin) -> None:
        self.jobs[twin.pk] = twin
        self.stand(twin)

    def get_due(self) -> int:
        """Put in line what is due; give how many."""
        due = [one for one in self.in_state(Status.QUEUED) if one.line == "later"]
        due = [one for one in due if one.scheduled_at <= self.now]
        for twin in sorted(due, key=lambda one: (one.priority, one.scheduled_at, one.pk)):
            self.stand(twin)
        return len(due)

    def age(self) -> int:
        """Raise what has waited long; give how many."""
        old = [
            twin
            for twin in self.in_state(Status.QUEUED)
            if twin.waiting_since is not None
            and twin.waiting_since <= self.now - AGING
            and twin.priority > Priority.HIGH
        ]
        for twin in old:
            twin.priority, twin.waiting_since = twin.priority - 1, self.now
        return len(old)

    def _heads(self, twin: Twin) -> list[Twin]:
        queued = self.in_state(Status.QUEUED)
        same = [one for one in queued if (one.site, one.kind) == (twin.site, twin.kind) and one is not twin]
        return [one for one in same if one.line == "head"]

    # --- Moves -----------------------------------------------------------------------------------
    def move(self, moves: Sequence[tuple[Twin, Status]], orders: Mapping[int, Order]) -> None:
        """Make moves at once, with all that follows from them. `orders` says who is first in line."""
        self._make(moves, orders)
        family = self._family(twin for twin, _ in moves)
        followed: dict[int, tuple[Twin, Status]] = {}
        for root, to in moves:
            for twin in self._followers(root, to, family):
                state = Status.CANCELLED if to in BAD else Status.QUEUED
                twin.cancelled_with = root.pk if to in BAD else None
                followed.setdefault(twin.pk, (twin, state))
        self._make(list(followed.values()), orders)
        for twin in family:
            if twin.status == Status.QUEUED and twin.line == "parent" and not self.waits(twin):
                self.stand(twin)

    def _make(self, moves: Sequence[tuple[Twin, Status]], orders: Mapping[int, Order]) -> None:
        left = [twin for twin, _ in moves if twin.status == Status.QUEUED]
        for twin, to in moves:
            twin.status = to
            twin.line = ""
            if to == Status.QUEUED:
                # Not in line yet, and due only if its time has come: see below.
                twin.line, twin.cancelled_with = "later", None
        for twin in left:
            if twin.is_exclusive and not self._heads(twin):
                self._call_next(twin, orders)
        for twin, to in moves:
            if to == Status.QUEUED:
                self.stand(twin)

    def _call_next(self, gone: Twin, orders: Mapping[int, Order]) -> None:
        behind = [
            one
            for one in self.in_state(Status.QUEUED)
            if one.line == "behind" and (one.site, one.kind) == (gone.site, gone.kind)
        ]
        if behind:
            min(behind, key=lambda one: orders[one.pk]).line = "head"

    def _family(self, roots: Iterable[Twin]) -> list[Twin]:
        found = {root.pk for root in roots}
        first = set(found)
        while True:
            more = {twin.pk for twin in self.jobs.values() if twin.parents & found} - found
            if not more:
                return [self.jobs[pk] for pk in sorted(found - first)]
            found |= more

    def _followers(self, root: Twin, to: Status, family: list[Twin]) -> list[Twin]:
        mine = self._family([root])
        if to in BAD:
            return [twin for twin in mine if twin.status == Status.QUEUED]
        if to not in (Status.QUEUED, Status.RESOLVED):
            return []
        off = [twin for twin in mine if twin.status == Status.CANCELLED and twin.cancelled_with == root.pk]
        return self._revivable(off)

    def _revivable(self, off: list[Twin]) -> list[Twin]:
        """Leave those that would wait for what has failed or was called off; they belong to that one now."""
        back: list[Twin] = []
        for twin in sorted(off, key=lambda one: one.pk):
            wrong = [self.jobs[pk] for pk in sorted(twin.parents) if self.jobs[pk].status in BAD]
            wrong = [parent for parent in wrong if parent not in back]
            if not wrong:
                back.append(twin)
            else:
                twin.cancelled_with = wrong[0].cancelled_with or wrong[0].pk
        return back

    # --- Claims ----------------------------------------------------------------------------------
    def claimable(self, worker: int, places: Sequence[int], orders: Mapping[int, Order]) -> dict[int, int]:
        """Give what a claim must hand out: for each job its place. In order, each where there is room."""
        ready = [one for one in self.in_state(Status.QUEUED) if self.readiness(one) == Readiness.READY]
        hands: dict[int, list[Twin]] = {}
        used = self._used()
        free = [place for place in places if (worker, place) not in used.get(("all",), set())]
        for twin in sorted(ready, key=lambda one: orders[one.pk]):
            if self.is_held_back(twin) or any(excludes(one, twin) for hand in hands.values() for one in hand):
                continue
            place = self._place(twin, worker, [place for place in free if place not in hands], hands, used)
            if place is not None:
                hands.setdefault(place, []).append(twin)
                for group, _ in self.ceilings.of(twin):
                    used.setdefault(group, set()).add((worker, place))
        return {twin.pk: place for place, hand in hands.items() for twin in hand}

    def over_limit(self) -> list[Group]:
        """Give the groups of which more is used than they have."""
        used = self._used()
        rules = [rule for twin in self.in_state(*HELD) for rule in self.ceilings.of(twin)]
        return [group for group, limit in rules if len(used[group]) > limit]

    def _used(self) -> dict[Group, set[tuple[int, int]]]:
        used: dict[Group, set[tuple[int, int]]] = {}
        for twin in self.in_state(*HELD):
            for group, _ in self.ceilings.of(twin):
                used.setdefault(group, set()).add((twin.worker, twin.place))
        return used

    def _place(
        self,
        twin: Twin,
        worker: int,
        free: Sequence[int],
        hands: Mapping[int, list[Twin]],
        used: Mapping[Group, set[tuple[int, int]]],
    ) -> int | None:
        def has_room(place: tuple[int, int] | None) -> bool:
            rules = self.ceilings.of(twin)
            taken = ((used.get(group, set()), most) for group, most in rules)
            return all(len(places) < most or place in places for places, most in taken)

        if free and has_room(None):
            return free[0]
        open_hands = [place for place, hand in hands.items() if all(one.profile.brief for one in hand)]
        if not twin.profile.brief:
            return None
        fitting = [place for place in open_hands if has_room((worker, place))]
        return min(fitting, key=lambda place: len(hands[place])) if fitting else None

    # --- Ends ------------------------------------------------------------------------------------
    def fate(self, twin: Twin, *, spent: bool = True) -> tuple[Status, int]:
        """Give what becomes of a held job whose worker is lost: its state, and its attempts."""
        on_lost = twin.profile.on_lost
        asks = on_lost is OnLost.ASK_JOURNAL
        if on_lost is OnLost.ORPHAN or (asks and twin.epoch >= MOST_EPOCHS):
            return Status.ORPHANED, twin.attempt
        if twin.status == Status.CANCEL_REQUESTED:
            return Status.CANCELLED, twin.attempt
        if spent and not asks:
            last = twin.attempt >= twin.profile.attempts
            return (Status.FAILED if last else Status.QUEUED), twin.attempt
        return Status.QUEUED, max(0, twin.attempt - 1)

    def end(self, twin: Twin, how: str) -> tuple[Status, int, float]:
        """Give how an attempt ends that behaves so: state, attempts, and seconds until the next."""
        asked = twin.status == Status.CANCEL_REQUESTED
        status, attempt, delay = self._undisturbed(twin, how)
        if asked and status == Status.QUEUED:
            # As if it were to come again: its columns are those of the wish.
            return Status.CANCELLED, attempt, delay
        return status, attempt, delay

    def _undisturbed(self, twin: Twin, how: str) -> tuple[Status, int, float]:
        tried = twin.attempt
        match how:
            case "stop" if twin.status == Status.CANCEL_REQUESTED:
                return Status.CANCELLED, tried, 0
            case "stop" if (
                not twin.profile.brief and twin.deadline_at is not None and (twin.deadline_at <= self.now)
            ):
                return Status.FAILED, tried, 0
            case "fail" if tried < twin.profile.attempts:
                delays = twin.profile.retry_delays or (0,)
                return Status.QUEUED, tried, delays[min(tried, len(delays)) - 1]
            case "fail" | "refuse":
                return Status.FAILED, tried, 0
            case "busy":
                return Status.QUEUED, max(0, tried - 1), 15 * min(twin.epoch - tried + 1, 20)
            case "lose":
                status, attempt = self.fate(twin)
                return status, attempt, 5
        return Status.SUCCESS, tried, 0

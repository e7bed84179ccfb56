"""The engine against a simple model of it, in random order on the real database.

`CHP_MODEL_EXAMPLES` is how many random lives are tried; given, they are other ones at each run.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from django.db import transaction
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django import Settings

from accounts.actor import operator
from audit import clock
from jobs import aging, execution, pauses, pipeline, queue, recovery, registry, waiting
from jobs.events import Line
from jobs.exceptions import KeyConflict, NotReady, WrongState
from jobs.models import EventType, Job, JobEvent, PauseScope, SiteGate, Worker
from jobs.pauses import Target
from jobs.profile import Priority
from jobs.request import JobRequest
from jobs.states import WAITING, Status
from sites.models import Server, Site
from tests.cast import Cast
from tests.cast import site as make_site
from tests.engine.invariants import violations
from tests.engine.violation import Expected
from tests.jobs import model
from tests.jobs.model import BEHAVIOUR, CLOSING, GOOD, HELD, KINDS, Ceilings, Model, Order, Twin
from tests.jobs.samples import worker

EXAMPLES = os.environ.get("CHP_MODEL_EXAMPLES", "")
ROOT = operator("root")
SECOND = timedelta(seconds=1)
ENDS = ("work", "work", "work", "fail", "refuse", "busy", "lose", "stop")
LIMITS = (
    Ceilings(),
    Ceilings(overall=2),
    Ceilings(by_type={"SAMPLE_LOOK": 1, "SAMPLE": 2}, per_server=3),
    Ceilings(by_type_on_server={"SAMPLE_PROBE": 1, "SAMPLE": 1}, per_server=2),
    Ceilings(heavy=1, by_type={"SAMPLE_CHANGE": 0}),
)
KINDS_DRAWN = st.sampled_from(KINDS)
PLACES = st.integers(1, 3)
NUMBERS = st.integers(0, 10_000)
DELAYS = st.sampled_from([0, 0, 0, 0, 30, 3600])


class Stage:
    """What every example begins with: made once, outside of what each example rolls back."""

    sites: ClassVar[list[Site]] = []

    @classmethod
    def build(cls, cast: Cast) -> None:
        second = Server.objects.create(
            name="web2", agent_socket="/nonexistent/agent.sock", key_id="web2", web_address="127.0.0.1:9"
        )
        cls.sites = [cast.site, make_site(cast.customer, second, "second.test"), cast.foreign_site]


class Engine(RuleBasedStateMachine):
    """Each rule does the same to the engine and to the model; then they are compared."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        # As a test case wraps each test: it is rolled back, and is no transaction of the product's own.
        self._around = transaction.atomic()
        self._around._from_testcase = True  # type: ignore[attr-defined]
        self._stack.enter_context(self._around)
        self._stack.callback(transaction.set_rollback, True)
        self.now = clock.database_now()
        self._stack.enter_context(clock.override(lambda: self.now))
        self._stack.enter_context(patch.object(execution, "HAND_SECONDS", 3600))
        self.model = Model(self.now, Ceilings())
        self.keys: dict[tuple[str, int, str], tuple[int, float]] = {}
        self.late: list[Job] = []
        BEHAVIOUR.clear()

    @initialize(limits=st.sampled_from(LIMITS))
    def begin(self, limits: Ceilings) -> None:
        self.model.ceilings = limits
        self._stack.enter_context(
            override_settings(
                MAX_WORKERS=limits.overall,
                CHP_TYPE_LIMITS=limits.by_type,
                MAX_JOBS_PER_SERVER=limits.per_server,
                CHP_TYPE_LIMITS_PER_SERVER=limits.by_type_on_server,
                CHP_HEAVY_LIMITS={"disk": limits.heavy, "database": 4, "network": 4},
            )
        )
        self.workers = [worker("w1"), worker("w2")]

    def teardown(self) -> None:
        try:
            if hasattr(self, "workers"):
                self._come_to_an_end()
                assert violations(Expected(orphans=frozenset({"SAMPLE_CHANGE", "SAMPLE_PROVISION"}))) == []
        finally:
            self._stack.close()

    # --- Asking ----------------------------------------------------------------------------------
    @rule(
        kind=KINDS_DRAWN,
        site=st.integers(0, 2),
        priority=st.sampled_from([None, *Priority]),
        delay=DELAYS,
        parents=st.lists(NUMBERS, max_size=2),
    )
    def submit(self, kind: str, site: int, priority: Priority | None, delay: int, parents: list[int]) -> None:
        self._tick()
        above = {twin.pk for number in parents if (twin := self._any(number)) is not None}
        request = JobRequest(
            kind,
            Stage.sites[site].pk,
            priority=priority,
            scheduled_at=self.now + delay * SECOND if delay else None,
            after=tuple(f"JOB-{pk}" for pk in sorted(above)),
        )
        if any(self.model.jobs[pk].status in model.BAD for pk in above):
            with pytest.raises(NotReady):
                pipeline.submit(ROOT, request)
            return
        self._add(pipeline.submit(ROOT, request).job, request, frozenset(above))

    @rule(
        kind=KINDS_DRAWN,
        site=st.integers(0, 1),
        key=st.sampled_from("ab"),
        seconds=st.sampled_from([0.0, 1.0]),
    )
    def submit_with_a_key(self, kind: str, site: int, key: str, seconds: float) -> None:
        self._tick()
        request = JobRequest(kind, Stage.sites[site].pk, {"seconds": seconds}, idempotency_key=key)
        whose = (kind, site, key)
        earlier, body = self.keys.get(whose, (0, 0.0))
        if earlier and body != seconds:
            with pytest.raises(KeyConflict):
                pipeline.submit(ROOT, request)
            return
        submission = pipeline.submit(ROOT, request)
        assert submission.created is not bool(earlier)
        if earlier:
            assert submission.job.pk == earlier
            return
        self.keys[whose] = (submission.job.pk, seconds)
        self._add(submission.job, request, frozenset())

    @rule(
        kinds=st.lists(KINDS_DRAWN, min_size=2, max_size=3),
        sites=st.lists(st.integers(0, 2), min_size=3, max_size=3),
        fan=st.booleans(),
    )
    def submit_chain(self, kinds: list[str], sites: list[int], fan: bool) -> None:
        """A chain, or a last one that waits for all others; asked for in the wrong order."""
        self._tick()
        labels = [f"j{number}" for number in range(len(kinds))]
        requests = []
        for number, kind in enumerate(kinds):
            first = 0 if fan and number == len(kinds) - 1 else max(0, number - 1)
            after = () if fan and number < len(kinds) - 1 else tuple(labels[first:number])
            requests.append(
                JobRequest(kind, Stage.sites[sites[number]].pk, label=labels[number], after=after)
            )
        made = pipeline.submit_chain(ROOT, requests[::-1])[::-1]
        by_label = {label: one.job.pk for label, one in zip(labels, made, strict=True)}
        for one, request in sorted(zip(made, requests, strict=True), key=lambda pair: pair[0].job.pk):
            self._add(one.job, request, frozenset(by_label[label] for label in request.after))

    # --- Working ---------------------------------------------------------------------------------
    @rule(who=st.integers(0, 1), places=PLACES)
    def claim(self, who: int, places: int) -> None:
        self._tick()
        self._claim(who, places)

    @rule(number=NUMBERS, how=st.lists(st.sampled_from(ENDS), min_size=1, max_size=4))
    @precondition(lambda self: self.model.in_state(*HELD))
    def finish(self, number: int, how: list[str]) -> None:
        """Run what one place holds."""
        self._tick()
        twin = self._pick(self.model.in_state(*HELD), number)
        hand = [
            one for one in self.model.in_state(*HELD) if (one.worker, one.place) == (twin.worker, twin.place)
        ]
        self._run(hand, how)

    @rule(number=NUMBERS, spent=st.booleans())
    @precondition(lambda self: self.model.in_state(*HELD))
    def lose(self, number: int, spent: bool) -> None:
        self._tick()
        twin = self._pick(self.model.in_state(*HELD), number)
        self._remember(twin)
        to, attempt = self.model.fate(twin, spent=spent)
        assert recovery.lose(Job.objects.get(pk=twin.pk), "it is gone", spent=spent)
        self._ended([(twin, to, attempt, 0)])

    @rule(number=NUMBERS)
    @precondition(lambda self: self.model.in_state(Status.RUNNING))
    def hand_back(self, number: int) -> None:
        self._tick()
        twin = self._pick(self.model.in_state(Status.RUNNING), number)
        self._remember(twin)
        recovery.hand_back([Job.objects.get(pk=twin.pk)], "it was not begun")
        self._ended([(twin, Status.QUEUED, max(0, twin.attempt - 1), 0)])

    @rule()
    def sweep(self) -> None:
        self._tick()
        stale = [one for one in self.model.in_state(*HELD) if self.now - _beat_of(one) >= model.STALE]
        for twin in stale:
            self._remember(twin)
        assert {job.pk for job in recovery.sweep()} == {twin.pk for twin in stale}
        for twin in sorted(stale, key=_beat_of):
            to, attempt = self.model.fate(twin)
            self._ended([(twin, to, attempt, 0)])

    @rule(who=st.integers(0, 1))
    def beat(self, who: int) -> None:
        self._tick()
        mine = [twin for twin in self.model.in_state(*HELD) if twin.worker == who]
        rows = Job.objects.filter(pk__in=[twin.pk for twin in mine])
        tokens = set(rows.values_list("claim_token", flat=True))
        assert queue.beat(tokens) == tokens
        for twin in mine:
            twin.heartbeat_at = self.now

    @rule(number=NUMBERS)
    @precondition(lambda self: self.late)
    def come_late(self, number: int) -> None:
        """A worker that was taken for dead hands in its result: it is told, and changes nothing."""
        self._tick()
        old = self.late[number % len(self.late)]
        told = JobEvent.objects.filter(event_type=EventType.LATE_RESULT, job=old)
        before = told.count()
        end = execution.End(Status.SUCCESS, Line(EventType.SUCCESS, "done"), {"result": {"late": True}})
        execution._record([(old, end)])
        assert told.count() == before + 1

    # --- Deciding --------------------------------------------------------------------------------
    @rule(number=NUMBERS)
    @precondition(lambda self: self.model.jobs)
    def cancel(self, number: int) -> None:
        self._tick()
        twin = self._pick(list(self.model.jobs.values()), number)
        to = {Status.QUEUED: Status.CANCELLED, Status.RUNNING: Status.CANCEL_REQUESTED}.get(twin.status)
        self._decide(twin, to, lambda: pipeline.cancel(ROOT, twin.pk, "not needed"))

    @rule(number=NUMBERS)
    @precondition(lambda self: self.model.jobs)
    def retry(self, number: int) -> None:
        self._tick()
        failed = self.model.in_state(Status.FAILED, Status.ORPHANED)
        twin = self._pick(failed or list(self.model.jobs.values()), number)
        to = Status.QUEUED if failed else None
        self._decide(twin, to, lambda: pipeline.retry(ROOT, twin.pk, "once more"))

    @rule(number=NUMBERS, outcome=st.sampled_from([Status.RESOLVED, Status.FAILED]))
    @precondition(lambda self: self.model.in_state(Status.FAILED, Status.ORPHANED))
    def resolve(self, number: int, outcome: Status) -> None:
        self._tick()
        twin = self._pick(self.model.in_state(Status.FAILED, Status.ORPHANED), number)
        possible = outcome == Status.RESOLVED or twin.status == Status.ORPHANED
        self._decide(
            twin, outcome if possible else None, lambda: pipeline.resolve(ROOT, twin.pk, outcome, "seen to")
        )

    @rule(what=st.sampled_from(["all", "type", "site", "server"]), number=st.integers(0, 4))
    def pause_or_resume(self, what: str, number: int) -> None:
        self._tick()
        site = Stage.sites[number % 3]
        if what == "all":
            is_on = self.model.everything_paused
            self.model.everything_paused = not is_on
        else:
            paused, name = self._paused(what, number)
            is_on = name in paused
            (paused.discard if is_on else paused.add)(name)
        target = _target(what, KINDS[number], site)
        with pytest.raises(WrongState):
            (pauses.pause if is_on else pauses.resume)(ROOT, target, "not so")
        (pauses.resume if is_on else pauses.pause)(ROOT, target, "maintenance")

    # --- Time ------------------------------------------------------------------------------------
    @rule(seconds=st.sampled_from([1, 20, 100, 1000, 4000, 22_000]))
    def wait(self, seconds: int) -> None:
        self._tick(seconds)

    @rule()
    def age(self) -> None:
        self._tick()
        assert aging.raise_priorities() == self.model.age()

    # --- What is always so -----------------------------------------------------------------------
    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        columns = ("pk", "status", "readiness", "attempt", "epoch", "priority", "cancelled_with_id")
        rows = {row[0]: row[1:] for row in Job.objects.values_list(*columns)}
        assert rows == {
            twin.pk: (
                twin.status,
                self.model.readiness(twin),
                twin.attempt,
                twin.epoch,
                twin.priority,
                twin.cancelled_with,
            )
            for twin in self.model.jobs.values()
        }

    @invariant()
    def blockers_are_named(self) -> None:
        named = dict(Job.objects.exclude(blocked_by=None).values_list("pk", "blocked_by_id"))
        shut = {pk for pk, twin in self.model.jobs.items() if self.model.readiness(twin) == "SITE"}
        assert set(named) == shut
        assert all(named[pk] in self.model.blockers(self.model.jobs[pk]) for pk in shut)

    @invariant()
    def gates_are_what_is_closing(self) -> None:
        for gate in SiteGate.objects.all():
            assert (gate.exclusive, gate.mutating, gate.shared) == self.model.gate(gate.site_id)
            assert gate.paused == (gate.site_id in self.model.sites_paused)

    @invariant()
    def no_limit_is_exceeded_and_no_conflict_runs(self) -> None:
        assert self.model.over_limit() == []
        closing = self.model.in_state(*CLOSING)
        assert not any(model.excludes(one, other) for one in closing for other in closing)

    @invariant()
    def nothing_stands_wrongly(self) -> None:
        assert recovery.mend() == 0

    @invariant()
    def a_customer_has_one_job_per_turn(self) -> None:
        turns = defaultdict(list)
        rows = Job.objects.filter(readiness__in=WAITING).values_list("customer_id", "priority", "turn")
        for customer, priority, turn in rows:
            turns[customer, priority].append(turn)
        assert all(len(found) == len(set(found)) for found in turns.values())

    @invariant()
    def who_waits_says_why(self) -> None:
        queued = list(Job.objects.filter(status=Status.QUEUED))
        told = waiting.explain(queued, operator("root"))
        assert set(told) == {job.pk for job in queued}
        for job in queued:
            self._require_sentence(self.model.jobs[job.pk], told[job.pk])

    def _require_sentence(self, twin: Twin, sentence: str) -> None:
        paused = self.model.is_held_back(twin) or twin.site in self.model.sites_paused
        match self.model.readiness(twin):
            case "LATER" if twin.scheduled_at > self.now:
                assert sentence.startswith("due at ")
            case "PARENT":
                assert sentence.startswith("waits for JOB-")
            case "SITE" | "BEHIND" if not paused and Worker.objects.exists() and "worker" not in sentence:
                assert sentence.startswith(("behind JOB-", "blocked by ORPHANED JOB-"))
            case _:
                assert sentence.startswith("paused by root (command)") or not (
                    paused and twin.line in ("head", "behind")
                )
        assert sentence.strip()

    # --- How it is done --------------------------------------------------------------------------
    def _tick(self, seconds: float = 1) -> None:
        self.now += seconds * SECOND
        self.model.now = self.now

    def _any(self, number: int) -> Twin | None:
        twins = list(self.model.jobs.values())
        return twins[number % len(twins)] if twins else None

    def _pick(self, twins: Sequence[Twin], number: int) -> Twin:
        return twins[number % len(twins)]

    def _paused(self, what: str, number: int) -> tuple[set[Any], object]:
        site = Stage.sites[number % 3]
        return {
            "type": (self.model.types_paused, KINDS[number]),
            "site": (self.model.sites_paused, site.pk),
            "server": (self.model.servers_paused, site.server_id),
        }[what]

    def _add(self, job: Job, request: JobRequest, parents: frozenset[int]) -> None:
        site = next(site for site in Stage.sites if site.pk == request.site_id)
        wanted = model.PROFILES[request.operation].priority if request.priority is None else request.priority
        self.model.add(
            Twin(
                pk=job.pk,
                kind=request.operation,
                site=site.pk,
                customer=site.customer_id,
                server=site.server_id,
                priority=wanted,
                scheduled_at=request.scheduled_at or self.now,
                parents=parents,
            )
        )

    def _claim(self, who: int, places: int) -> dict[int, int]:
        assert queue.get_due_in_line() == self.model.get_due()
        wanted = self.model.claimable(who, range(places), _orders())
        jobs = queue.claim(self.workers[who], range(places), registry.known_types())
        assert {job.pk: job.place for job in jobs} == wanted
        for pk, place in wanted.items():
            twin = self.model.jobs[pk]
            twin.worker, twin.place, twin.heartbeat_at = who, place, self.now
            twin.epoch, twin.attempt = twin.epoch + 1, twin.attempt + 1
            together = [self.model.jobs[one] for one, at in wanted.items() if at == place]
            twin.deadline_at = self.now + SECOND * sum(one.profile.timeout for one in together)
        self.model.move([(self.model.jobs[pk], Status.RUNNING) for pk in wanted], _orders())
        assert all(len(job.claim_token) == 32 for job in jobs)
        return wanted

    def _run(self, hand: list[Twin], how: Sequence[str]) -> None:
        for number, twin in enumerate(hand):
            BEHAVIOUR[twin.pk] = how[number % len(how)]
            self._remember(twin)
        ends = [(twin, *self.model.end(twin, BEHAVIOUR[twin.pk])) for twin in hand]
        tokens = dict(Job.objects.filter(pk__in=[one.pk for one in hand]).values_list("pk", "claim_token"))
        execution.run_hand([(twin.pk, tokens[twin.pk]) for twin in hand])
        if any(to == Status.SUCCESS for _, to, _, _ in ends):
            # What has ended as its late result says is not told of again.
            done = {twin.pk for twin, to, _, _ in ends if to == Status.SUCCESS}
            self.late = [job for job in self.late if job.pk not in done]
        self._ended(ends)

    def _remember(self, twin: Twin) -> None:
        rows = Job.objects.select_related("site", "customer", "server", "plan")
        self.late.append(rows.get(pk=twin.pk))

    def _ended(self, ends: Sequence[tuple[Twin, Status, int, float]]) -> None:
        for twin, to, attempt, delay in ends:
            twin.attempt = attempt
            if to == Status.QUEUED:
                twin.scheduled_at = self.now + delay * SECOND
        self.model.move([(twin, to) for twin, to, _, _ in ends], _orders())

    def _decide(self, twin: Twin, to: Status | None, act: Callable[[], Job]) -> None:
        if to is None:
            with pytest.raises(WrongState):
                act()
            return
        assert act().status == to
        if to == Status.QUEUED:
            twin.attempt, twin.scheduled_at = 0, self.now
        self.model.move([(twin, to)], _orders())

    # --- The end of the play ---------------------------------------------------------------------
    def _come_to_an_end(self) -> None:
        """Nothing is stuck: with no pause, limit or orphan everything that is queued comes to its end."""
        self._open_everything()
        roomy = override_settings(MAX_WORKERS=64, CHP_TYPE_LIMITS={}, CHP_TYPE_LIMITS_PER_SERVER={})
        heavy = override_settings(CHP_HEAVY_LIMITS=dict.fromkeys(("disk", "database", "network"), 64))
        self.model.ceilings = Ceilings(overall=64, per_server=64, heavy=64)
        with roomy, heavy, override_settings(MAX_JOBS_PER_SERVER=64):
            while self.model.in_state(Status.QUEUED, *HELD):
                self._tick(86_400)
                held = self.model.in_state(*HELD)
                places = {(one.worker, one.place) for one in held}
                for who, place in places:
                    self._run([one for one in held if (one.worker, one.place) == (who, place)], ["work"])
                claimed = self._claim(0, 3)
                self.rows_are_as_the_model_says()
                assert claimed or not self.model.in_state(Status.QUEUED), "something is stuck"
        assert all(twin.status in (*GOOD, *model.BAD) for twin in self.model.jobs.values())

    def _open_everything(self) -> None:
        for pause in pauses.in_force().pauses:
            target = Target(PauseScope(pause.scope), pause.job_type, pause.server, pause.site)
            pauses.resume(ROOT, target, "the end")
        self.model.everything_paused = False
        for paused in (self.model.types_paused, self.model.sites_paused, self.model.servers_paused):
            paused.clear()
        for twin in self.model.in_state(Status.ORPHANED):
            self._decide(
                twin,
                Status.RESOLVED,
                lambda twin=twin: pipeline.resolve(ROOT, twin.pk, Status.RESOLVED, "the end"),
            )


def _beat_of(twin: Twin) -> Any:
    return twin.heartbeat_at


def _orders() -> dict[int, Order]:
    rows = Job.objects.values_list("pk", "priority", "turn", "scheduled_at")
    return {pk: (priority, turn, scheduled_at, pk) for pk, priority, turn, scheduled_at in rows}


def _target(what: str, kind: str, site: Site) -> Target:
    return {
        "all": Target(PauseScope.ALL),
        "type": Target(PauseScope.TYPE, job_type=kind),
        "site": Target(PauseScope.SITE, site=site),
        "server": Target(PauseScope.SERVER, server=site.server),
    }[what]


@pytest.fixture
def model_operations(settings: Settings) -> None:
    settings.CHP_OPERATIONS = "tests.jobs.model.OPERATIONS"
    settings.CHP_HEARTBEAT_SECONDS = 30
    settings.CHP_STALE_BEATS = 5
    settings.CHP_AGING_HOURS = 6
    settings.CHP_BUSY_DELAY_SECONDS = 15
    registry.operations.cache_clear()


@pytest.mark.django_db
def test_the_engine_does_what_the_model_says(cast: Cast, model_operations: None) -> None:
    """Rules 1, 2, 4, 6, 7 and 15, and DESIGN section 4: random lives of random jobs."""
    Stage.build(cast)
    run_state_machine_as_test(
        Engine,
        settings=settings(
            max_examples=int(EXAMPLES or 20),
            stateful_step_count=40,
            derandomize=not EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""Races on the real database: threads with connections of their own do at once what must not be done twice.

`CHP_RACE_ROUNDS` is how often each race is run.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from accounts.actor import operator
from jobs import aging, pauses, pipeline, recovery, registry
from jobs.events import Line
from jobs.exceptions import KeyConflict, NotReady, Refused, WrongState
from jobs.execution import End, _record, run_attempt, run_hand
from jobs.models import EventType, Job, JobEvent, PauseScope, SiteGate
from jobs.pauses import Target
from jobs.queue import claim
from jobs.request import JobRequest
from jobs.states import CLOSING, Readiness, Status
from sites.models import Server, Site, SiteState
from tests.cast import Cast
from tests.engine.invariants import violations
from tests.engine.violation import Expected
from tests.jobs.lock_waits import until_waiting
from tests.jobs.model import BEHAVIOUR
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = int(os.environ.get("CHP_RACE_ROUNDS", "3"))
ROOT = operator("root")
SEED = 20260813
ORPHANED_WHEN_LOST = frozenset({"SAMPLE_CHANGE", "SAMPLE_PROVISION"})


@pytest.fixture(autouse=True)
def race_operations(settings: Settings) -> None:
    BEHAVIOUR.clear()
    settings.CHP_OPERATIONS = "tests.jobs.model.OPERATIONS"
    settings.MAX_WORKERS = 64
    settings.CHP_TYPE_LIMITS = {}
    settings.CHP_TYPE_LIMITS_PER_SERVER = {}
    settings.CHP_HEAVY_LIMITS = dict.fromkeys(("disk", "database", "network"), 64)
    registry.operations.cache_clear()


@pytest.fixture(autouse=True)
def no_deadlock(race_operations: None) -> Iterator[None]:
    """Nobody is ever shot by PostgreSQL, not even where the engine would try again unnoticed."""
    before = _deadlocks()
    yield
    assert _deadlocks() == before


def _deadlocks() -> int:
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def _make_sites(cast: Cast, number: int, servers: Sequence[Server] = ()) -> list[Site]:
    where = cycle(servers or [cast.server])
    names = [f"race{position}-{Site.objects.count()}.test" for position in range(number)]
    rows = [
        Site(
            customer=cast.customer,
            server=next(where),
            domain=name,
            display_domain=name,
            state=SiteState.ACTIVE,
        )
        for name in names
    ]
    return Site.objects.bulk_create(rows)


def _together(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do all at the same moment, each with a connection of its own; a refusal is an answer."""
    start = threading.Barrier(len(acts))

    def do(act: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            start.wait(30)
            return act()
        except Refused as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(do, acts))


@contextmanager
def _while_open(act: Callable[[], object]) -> Iterator[threading.Thread]:
    """Give a thread that does it, to be started while the caller's transaction is open; wait for its end."""
    done: list[object] = []

    def do() -> None:
        try:
            done.append(act())
        finally:
            connection.close()

    other = threading.Thread(target=do)
    with transaction.atomic():
        yield other
    other.join(30)
    assert len(done) == 1


def _until_it_waits(other: threading.Thread) -> None:
    """Wait until the other thread stands before a lock of ours; on SQLite it cannot even begin."""
    until_waiting(lambda waiting: bool(waiting) or not other.is_alive(), 10)
    time.sleep(0.3)


def _run(jobs: Sequence[Job]) -> None:
    for job in jobs:
        run_attempt(job.pk, job.claim_token)


def _claim(places: int = 4, types: Sequence[str] | None = None) -> list[Job]:
    return claim(worker(), range(places), types or registry.known_types())


def _require_order() -> None:
    """Nothing is left waiting for something that has gone, and every history is whole."""
    assert recovery.mend() == 0
    ended_badly = (Status.FAILED, Status.CANCELLED)
    waits = Job.objects.filter(status=Status.QUEUED, waits_for__parent__status__in=ended_badly)
    assert list(waits) == []
    for gate in SiteGate.objects.all():
        closing = Job.objects.filter(site_id=gate.site_id, status__in=CLOSING)
        assert gate.exclusive == closing.filter(lock="EXCLUSIVE").count()
        assert gate.shared == closing.filter(lock="SHARED").count()
    assert violations(Expected(may_run=True, orphans=ORPHANED_WHEN_LOST)) == []


def _come_to_an_end() -> None:
    """Work on until nothing is queued or held."""
    for pause in pauses.in_force().pauses:
        pauses.resume(ROOT, Target(PauseScope(pause.scope), pause.job_type, pause.server, pause.site), "end")
    for job in Job.objects.filter(status=Status.ORPHANED):
        pipeline.resolve(ROOT, job.pk, Status.RESOLVED, "end")
    open_states = (Status.QUEUED, Status.RUNNING, Status.CANCEL_REQUESTED)
    BEHAVIOUR.update(dict.fromkeys(Job.objects.values_list("pk", flat=True), "work"))
    Job.objects.filter(readiness=Readiness.LATER).update(scheduled_at="2020-01-01T00:00:00Z")
    while Job.objects.filter(status__in=open_states).exists():
        _run(list(Job.objects.filter(status__in=(Status.RUNNING, Status.CANCEL_REQUESTED))))
        Job.objects.filter(readiness=Readiness.LATER).update(scheduled_at="2020-01-01T00:00:00Z")
        found = _claim(8)
        assert found or not Job.objects.filter(status__in=open_states).exists(), "something is stuck"
        _run(found)


# --- A site that opens ---------------------------------------------------------------------------
def test_who_gets_in_line_while_the_blocker_leaves_is_not_forgotten(cast: Cast) -> None:
    """Rule 6: submit against claim and against the end of what keeps the site closed."""
    for site in _make_sites(cast, ROUNDS):
        blocker = claimed(site, "SAMPLE_CHANGE")
        kinds = ["SAMPLE", "SAMPLE_LOOK", "SAMPLE_CHANGE", "SAMPLE"]
        asked = [partial(submitted, site, kind) for kind in kinds]
        _together([*asked, partial(_run, [blocker]), _claim, _claim])
        _require_order()
        _come_to_an_end()
    assert Job.objects.filter(status=Status.SUCCESS).count() == 5 * ROUNDS


def test_who_gets_in_line_while_the_last_of_its_kind_is_called_off_is_not_forgotten(cast: Cast) -> None:
    for site in _make_sites(cast, ROUNDS):
        first, second = submitted(site), submitted(site)
        cancelled = [partial(pipeline.cancel, ROOT, job.pk, "x") for job in (first, second)]
        asked = [partial(submitted, site, kind) for kind in ("SAMPLE", "SAMPLE_CHANGE")]
        _together([*cancelled, *asked, _claim])
        _require_order()
        _come_to_an_end()


# --- Parents -------------------------------------------------------------------------------------
def _parents(cast: Cast, number: int, how: str = "work") -> list[Job]:
    """Give so many held jobs on sites of their own, whose runs will do that."""
    jobs = [submitted(site, "SAMPLE_LOOK", {"how": how}) for site in _make_sites(cast, number)]
    taken = _claim(number)
    assert {job.pk for job in taken} == {job.pk for job in jobs}
    return taken


def test_what_waits_for_twenty_that_end_at_once_starts_exactly_once(cast: Cast) -> None:
    """Queue E15."""
    for _ in range(ROUNDS):
        parents = _parents(cast, 20)
        last = submitted(cast.site, after=tuple(job.code for job in parents))
        assert last.readiness == Readiness.PARENT
        _together([partial(_run, [job]) for job in parents])
        last.refresh_from_db()
        assert last.readiness == Readiness.READY
        _run([job for found in _together([_claim] * 3) for job in found])
        assert JobEvent.objects.filter(job=last, event_type=EventType.CLAIMED).count() == 1
        assert Job.objects.get(pk=last.pk).status == Status.SUCCESS
    _require_order()


def test_what_waits_for_two_that_fail_at_once_is_called_off_exactly_once(cast: Cast) -> None:
    """Queue E15, E16."""
    for _ in range(ROUNDS):
        parents = _parents(cast, 2, "refuse")
        last = submitted(cast.site, after=tuple(job.code for job in parents))
        _together([partial(_run, [job]) for job in parents])
        assert Job.objects.get(pk=last.pk).status == Status.CANCELLED
        assert JobEvent.objects.filter(job=last, event_type=EventType.CANCELLED).count() == 1
    _require_order()


@pytest.mark.parametrize("how", ["work", "refuse"])
def test_what_is_asked_for_after_a_job_that_ends_meanwhile_hears_of_its_end(cast: Cast, how: str) -> None:
    """Queue D7, E15: a few times at random."""
    for _ in range(ROUNDS * 2):
        (parent,) = _parents(cast, 1, how)
        after = (parent.code,)
        asked = [partial(submitted, site, "SAMPLE_LOOK", after=after) for site in _make_sites(cast, 3)]
        _together([partial(_run, [parent]), *asked])
        _require_order()
        _come_to_an_end()


# --- Decisions -----------------------------------------------------------------------------------
def test_who_cancels_while_a_job_is_claimed_is_told_what_became_of_it(cast: Cast) -> None:
    """Queue D1: the answer and the state agree, and nothing that was called off runs."""
    for _ in range(ROUNDS):
        jobs = [submitted(site) for site in _make_sites(cast, 6)]
        cancelled = [partial(pipeline.cancel, ROOT, job.pk, "x") for job in jobs]
        answers = _together([*cancelled, partial(_claim, 6), partial(_claim, 6)])
        claims = set(JobEvent.objects.filter(event_type=EventType.CLAIMED).values_list("job_id", flat=True))
        for answer in answers[: len(jobs)]:
            expected = Status.CANCEL_REQUESTED if answer.pk in claims else Status.CANCELLED
            assert answer.status == Job.objects.get(pk=answer.pk).status == expected
        _come_to_an_end()
    _require_order()


def test_of_eight_who_retry_one_job_one_does(cast: Cast) -> None:
    """Queue E4."""
    for _ in range(ROUNDS):
        job = moved(claimed(cast.site), Status.FAILED)
        answers = _together([partial(pipeline.retry, ROOT, job.pk, "once more")] * 8)
        refused = [answer for answer in answers if isinstance(answer, WrongState)]
        assert len(refused) == 7
        again = JobEvent.objects.filter(job=job, event_type=EventType.RETRY)
        assert (again.count(), Job.objects.get(pk=job.pk).status) == (1, Status.QUEUED)
        _come_to_an_end()
    _require_order()


def test_a_parent_that_comes_back_while_its_dependent_is_called_off_leaves_order(cast: Cast) -> None:
    """Queue D12, E16."""
    for _ in range(ROUNDS):
        (parent,) = _parents(cast, 1)
        child = submitted(cast.site, after=(parent.code,))
        grandchild = submitted(cast.foreign_site, after=(child.code,))
        moved(parent, Status.FAILED)
        cancelled = [partial(pipeline.cancel, ROOT, job.pk, "x") for job in (child, grandchild)]
        _together([partial(pipeline.retry, ROOT, parent.pk, "once more"), *cancelled])
        _require_order()
        _come_to_an_end()


# --- Pauses --------------------------------------------------------------------------------------
def test_nothing_of_a_paused_site_is_handed_out_whoever_comes_meanwhile(cast: Cast) -> None:
    for site in _make_sites(cast, ROUNDS):
        target = Target(PauseScope.SITE, site=site)
        submitted(site, "SAMPLE_LOOK")
        asked = [partial(submitted, site, kind) for kind in ("SAMPLE", "SAMPLE_LOOK", "SAMPLE_PROBE")]
        _together([*asked, partial(pauses.pause, ROOT, target, "x"), partial(_claim, 1), partial(_claim, 1)])
        waits = Job.objects.filter(site=site, status=Status.QUEUED)
        assert set(waits.values_list("readiness", flat=True)) <= {Readiness.PAUSED, Readiness.SITE}
        assert _claim() == []
        _together([partial(pauses.resume, ROOT, target, "x"), _claim, partial(submitted, site)])
        assert not waits.filter(readiness=Readiness.PAUSED).exists()
        _require_order()
        _come_to_an_end()


# --- Limits --------------------------------------------------------------------------------------
LIMITS: dict[str, tuple[dict[str, object], int]] = {
    "overall": ({"MAX_WORKERS": 5}, 5),
    "per type": ({"CHP_TYPE_LIMITS": {"SAMPLE": 3}}, 3),
    "per server": ({"MAX_JOBS_PER_SERVER": 2}, 4),
    "per heavy resource": ({"CHP_HEAVY_LIMITS": {"disk": 2, "database": 2, "network": 2}}, 4),
    "per type and server": ({"CHP_TYPE_LIMITS_PER_SERVER": {"SAMPLE": 3}}, 6),
    "two at once": ({"MAX_JOBS_PER_SERVER": 3, "CHP_TYPE_LIMITS": {"SAMPLE": 4}}, 4),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_eight_claimers_at_once_reach_each_limit_and_never_exceed_it(
    cast: Cast, settings: Settings, limit: str
) -> None:
    """Queue E9: counted from running rows, exactly."""
    changed, most = LIMITS[limit]
    for name, value in changed.items():
        setattr(settings, name, value)
    second = Server.objects.create(
        name="web2", agent_socket="/nonexistent/agent.sock", key_id="web2", web_address="127.0.0.1:9"
    )
    for site in _make_sites(cast, 16, [cast.server, second]):
        submitted(site)
    for _ in range(2):
        _together([lambda: [_claim(places) for places in (1, 3)]] * 8)
        _claim(16)
        running = Job.objects.filter(status=Status.RUNNING)
        assert running.count() == most
        _run(list(running)[: most // 2])
    _require_order()


# --- Keys ----------------------------------------------------------------------------------------
def test_fifty_who_ask_with_one_key_get_one_job(cast: Cast) -> None:
    """Queue E1."""
    request = JobRequest("SAMPLE", cast.site.pk, idempotency_key="the same")
    answers = _together([partial(pipeline.submit, ROOT, request)] * 50)
    assert len({answer.job.pk for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert Job.objects.count() == JobEvent.objects.filter(event_type=EventType.CREATED).count() == 1


def test_one_key_for_several_sites_at_once_serves_one_and_refuses_the_others(cast: Cast) -> None:
    """Queue E1: here no lock but the database's own constraint decides."""
    for number, sites in enumerate([_make_sites(cast, 6) for _ in range(ROUNDS)]):
        requests = [JobRequest("SAMPLE", site.pk, system_key=f"key {number}") for site in sites]
        answers = _together([partial(pipeline.submit, ROOT, one) for one in requests])
        assert len([answer for answer in answers if isinstance(answer, KeyConflict)]) == 5
    assert Job.objects.count() == ROUNDS


def test_chains_over_the_same_sites_in_opposite_order_never_stop_each_other(cast: Cast) -> None:
    sites = _make_sites(cast, 4)

    def chain(order: Sequence[Site]) -> object:
        labels = [f"j{number}" for number in range(len(order))]
        return pipeline.submit_chain(
            ROOT,
            [
                JobRequest("SAMPLE", site.pk, label=labels[number], after=tuple(labels[:number][-1:]))
                for number, site in enumerate(order)
            ],
        )

    for _ in range(ROUNDS):
        _together([partial(chain, sites), partial(chain, sites[::-1])] * 3)
        _require_order()
        _come_to_an_end()


# --- Everything at once --------------------------------------------------------------------------
class _Somebody:
    """One of many who do what comes to mind."""

    def __init__(self, number: int, sites: Sequence[Site]) -> None:
        self._dice = Random(SEED + number)
        self._sites = sites
        self._worker = worker(f"w{number}")

    def act(self, times: int) -> None:
        acts = [self._submit] * 4 + [self._work] * 4 + [self._cancel, self._retry, self._resolve]
        acts += [self._pause, self._lose, aging.raise_priorities]
        for _ in range(times):
            with suppress(WrongState, NotReady):
                self._dice.choice(acts)()

    def _submit(self) -> None:
        kind = self._dice.choice(registry.known_types())
        how = self._dice.choice(["work", "work", "fail", "refuse", "busy"])
        parents = {self._job() for _ in range(self._dice.choice([0, 0, 1, 2]))} - {0}
        after = tuple(f"JOB-{pk}" for pk in parents)
        pipeline.submit(ROOT, JobRequest(kind, self._dice.choice(self._sites).pk, {"how": how}, after=after))

    def _work(self) -> None:
        jobs = claim(self._worker, range(3), registry.known_types())
        for place in {job.place for job in jobs}:
            run_hand([(job.pk, job.claim_token) for job in jobs if job.place == place])

    def _cancel(self) -> None:
        if pk := self._job():
            pipeline.cancel(ROOT, pk, "x")

    def _retry(self) -> None:
        if pk := self._job(Status.FAILED):
            pipeline.retry(ROOT, pk, "x")

    def _resolve(self) -> None:
        if pk := self._job(Status.FAILED, Status.ORPHANED):
            pipeline.resolve(ROOT, pk, Status.RESOLVED, "x")

    def _pause(self) -> None:
        target = Target(PauseScope.SITE, site=self._dice.choice(self._sites))
        self._dice.choice([pauses.pause, pauses.resume, pauses.resume])(ROOT, target, "x")

    def _lose(self) -> None:
        if pk := self._job(Status.RUNNING, Status.CANCEL_REQUESTED):
            recovery.lose(Job.objects.get(pk=pk), "it is gone")

    def _job(self, *states: Status) -> int:
        rows = Job.objects.filter(status__in=states) if states else Job.objects.all()
        return self._dice.choice([*rows.values_list("pk", flat=True)[:30], 0])


def test_whatever_many_do_at_once_leaves_order_and_comes_to_an_end(cast: Cast) -> None:
    """Rules 1, 2, 6 and 15."""
    sites = _make_sites(cast, 4)
    people = [_Somebody(number, sites) for number in range(6)]
    for _ in range(ROUNDS):
        _together([partial(one.act, 20) for one in people])
        _require_order()
    _come_to_an_end()
    assert violations(Expected(all_ended=True, orphans=ORPHANED_WHEN_LOST)) == []


# --- One after the other, at the worst moment ----------------------------------------------------
@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (Status.SUCCESS, (Status.QUEUED, Readiness.READY)),
        (Status.FAILED, (Status.CANCELLED, Readiness.NONE)),
    ],
)
@pytest.mark.parametrize("where", ["the parent's site", "another site"])
def test_the_end_of_a_parent_sees_who_came_to_wait_for_it_at_the_last_moment(
    cast: Cast, to: Status, expected: tuple[str, str], where: str
) -> None:
    """Queue D7, E15: the end has looked for dependents when the dependent's transaction is still open."""
    (parent,) = _parents(cast, 1)
    end = End(to, Line(EventType(to.value), "done"), {"result": {}})
    site = parent.site if where == "the parent's site" else cast.site
    with _while_open(lambda: _record([(parent, end)])) as other:
        child = submitted(site, "SAMPLE_LOOK", after=(parent.code,))
        other.start()
        _until_it_waits(other)
    child.refresh_from_db()
    assert (child.status, child.readiness) == expected

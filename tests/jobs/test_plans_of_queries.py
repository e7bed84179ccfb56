"""What the hot queries read: each its index, on both databases, with values bound as the product binds them.

The statements are those that the product sends; nothing is copied here.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.actor import operator
from accounts.models import Customer, User
from accounts.roles import Role
from audit.clock import database_now
from jobs import aging, execution, pauses, pipeline, queue, recovery, transitions
from jobs.events import Line
from jobs.execution import End
from jobs.models import EventType, Job, JobDependency, PauseScope, SiteGate
from jobs.pauses import Target
from jobs.profile import Priority
from jobs.states import Readiness, Status
from sites.models import Server, Site, SiteState
from tests.builders import make_site
from tests.cast import Cast, member
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db

ROOT = operator("root")
TYPES = ["SAMPLE", "SAMPLE_CHANGE", "SAMPLE_LOOK"]
PRIMARY = {"jobs_job_pkey", "INTEGER PRIMARY KEY"}
# They hold only what stands or runs now: to read one from end to end is to read what is wanted.
SMALL = {"job_claim", "job_turn", "job_later", "job_held", "job_closing", "job_dependent", "job_blocked"}
SMALL |= {"job_head", "job_behind", "job_aging", "job_claim_on_server", "job_cancelled_with"}
BAD = ("no index", "all of")
Statement = tuple[str, Any]


# --- A full table --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Crowd:
    """Many rows of each kind, and those that the acts are about."""

    cast: Cast
    sites: list[Site]
    held: Job
    head: Job
    parent: Job
    newcomer: User


def _copies(job: Job, number: int, **change: object) -> list[Job]:
    job.refresh_from_db()
    skipped = ("id", "uuid", "idempotency_key", "plan")
    columns = {
        field.attname: getattr(job, field.attname)
        for field in Job._meta.concrete_fields
        if field.name not in skipped
    }
    return Job.objects.bulk_create([Job(**columns | change) for _ in range(number)], batch_size=500)


def _make_sites(cast: Cast, number: int) -> list[Site]:
    second = Server.objects.create(
        name="web2", agent_socket="/nonexistent/agent.sock", key_id="web2", web_address="127.0.0.1:9"
    )
    rows = [
        Site(
            customer=(cast.customer, cast.other_customer)[position % 2],
            server=(cast.server, second)[position % 2],
            domain=f"p{position}.test",
            display_domain=f"p{position}.test",
            state=SiteState.ACTIVE,
        )
        for position in range(number)
    ]
    return Site.objects.bulk_create(rows)


def _add_ended(site: Site, now: Any) -> None:
    done = moved(queue.claim(worker(), [0], TYPES)[0], Status.SUCCESS, result={})
    for number, state in enumerate((Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.SUCCESS)):
        more = {"site_id": site.pk + number, "status": state, "customer_id": site.customer_id}
        _copies(done, 500, **more, completed_at=now - timedelta(hours=number), job_type=TYPES[number % 3])


def _add_rare(cast: Cast, site: Site) -> User:
    """Add a type and a customer of which there is little; give the customer's owner."""
    job = submitted(site, "SAMPLE_LOOK")
    _copies(job, 20, job_type="RARE", readiness=Readiness.NONE, status=Status.SUCCESS)
    few = Customer.objects.create(code="few", name="Few Jobs", plan=cast.customer.plan)
    _copies(job, 20, customer_id=few.pk, readiness=Readiness.NONE, status=Status.SUCCESS)
    return member("newcomer", few, Role.OWNER)


@pytest.fixture
def crowd(cast: Cast, settings: Settings) -> Crowd:
    """Some thousand jobs: ended, later, ready, behind, shut out, dependent; some are held, some orphaned."""
    settings.MAX_WORKERS, settings.CHP_TYPE_LIMITS = 64, {}
    now = database_now()
    sites = _make_sites(cast, 40)
    submitted(sites[0], "SAMPLE_LOOK")
    _add_ended(sites[0], now)
    running = [submitted(site, "SAMPLE_CHANGE") for site in sites[:20]]
    taken = queue.claim(worker("holder"), range(20), TYPES)
    assert len(taken) == len(running)
    held = next(job for job in taken if job.site_id == sites[0].pk)
    for job in taken[1:6]:
        if job.pk != held.pk:
            moved(job, Status.ORPHANED)
    parent = submitted(sites[20], "SAMPLE_LOOK")
    child = submitted(sites[21], "SAMPLE_LOOK", after=(parent.code,))
    waits = _copies(child, 1500)
    above = [held, held, held, *Job.objects.filter(status=Status.FAILED)[:497]]
    pairs = [JobDependency(job=job, parent=above[number % len(above)]) for number, job in enumerate(waits)]
    JobDependency.objects.bulk_create(pairs, batch_size=500)
    head = submitted(sites[22])
    _copies(submitted(sites[22]), 600)
    _copies(submitted(sites[0], "SAMPLE_LOOK"), 500)
    _copies(submitted(sites[23], scheduled_at=now + timedelta(days=1)), 600)
    for site in sites[24:]:
        _copies(submitted(site, "SAMPLE_LOOK"), 60, priority=Priority.LOW, server_id=site.server_id)
    newcomer = _add_rare(cast, sites[-1])
    if connection.vendor == "postgresql":
        # It does so by itself; nobody does it for SQLite, whose planner goes by what it can see.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_job, jobs_jobdependency")
    return Crowd(cast, sites, Job.objects.get(pk=held.pk), head, parent, newcomer)


# --- The plans -----------------------------------------------------------------------------------
@contextmanager
def _overheard() -> Iterator[list[Statement]]:
    """Give the statements on jobs that are sent meanwhile, with their values."""
    heard: list[Statement] = []

    def listen(execute: Callable[..., Any], sql: str, values: Any, many: bool, context: Any) -> Any:
        if re.search(r'(FROM|UPDATE|JOIN) "?jobs_job(dependency)?\b', sql):
            heard.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(listen):
        yield heard


def _reads(statement: Statement) -> Iterator[str]:
    """Give each access to the tables of jobs: the index, or the words for having none."""
    sql, values = statement
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", values)
            for row in cursor.fetchall():
                if read := _read_on_sqlite(row[3]):
                    yield f"{read} in {sql}" if read.startswith(BAD) else read
        else:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
            (plan,) = cursor.fetchone()
            for read in _read_on_postgresql(
                (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
            ):
                yield f"{read} in {sql}" if read.startswith(BAD) else read


def _read_on_sqlite(detail: str) -> str:
    if not re.match(r"(SCAN|SEARCH) (jobs_job|jobs_jobdependency|U\d+|V\d+)\b", detail):
        return ""
    found = re.search(r"USING (?:COVERING )?(?:INDEX (\w+)|(INTEGER PRIMARY KEY))", detail)
    if found is None:
        return f"no index: {detail}"
    index = found[1] or found[2]
    is_whole = detail.startswith("SCAN") and index not in SMALL
    return f"all of {index}: {detail}" if is_whole else index


def _read_on_postgresql(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in ("jobs_job", "jobs_jobdependency"):
        yield f"no index: {node['Relation Name']} {node.get('Filter', '')}"
    if "Index Name" in node and node["Index Name"].startswith("job"):
        yield node["Index Name"]
    for below in node.get("Plans", ()):
        yield from _read_on_postgresql(below)


def _plan_of(act: Callable[[], object]) -> set[str]:
    """Do an act, give what its statements read, and undo it."""
    with transaction.atomic():
        with _overheard() as heard:
            act()
        found = {read for statement in heard for read in _reads(statement)}
        transaction.set_rollback(True)
    assert heard
    return found


def _end(job: Job, to: Status) -> None:
    end = End(to, Line(EventType(to.value), "done"), {"result": {}})
    execution._record([(job, end)])


def _list(user: User, query: str) -> None:
    client = Client()
    client.force_login(user)
    assert client.get(f"/api/v1/jobs/?{query}").status_code == 200


HELD = {"job_held", "job_closing", "job_by_status"}
READY = {"job_claim", "job_claim_on_server", "job_turn"}


def _acts(crowd: Crowd) -> dict[str, tuple[Callable[[], object], list[set[str]]]]:
    """Give the hot acts, each with what must be among what it reads: of each set one index."""
    who, held, cast = worker("asking"), crowd.held, crowd.cast
    last = crowd.sites[-1]
    return {
        "claim": (lambda: queue.claim(who, [0, 1], TYPES), [{"job_claim"}, HELD, {"job_closing"}]),
        "next due": (queue.look, [{"job_later"}]),
        "beat": (lambda: queue.beat([held.claim_token]), [HELD]),
        "strays": (lambda: queue.strays(who, ["x"]), [HELD]),
        "sweep": (recovery.sweep, [HELD, READY]),
        "end": (lambda: _end(held, Status.SUCCESS), [{"job_blocked"}, {"job_closing"}]),
        "submit": (lambda: submitted(last), [{"job_customer_turn"}, {"job_turn"}]),
        "cancel": (lambda: pipeline.cancel(ROOT, crowd.head.pk, "x"), [{"job_behind"}]),
        "pause": (lambda: pauses.pause(ROOT, Target(PauseScope.SITE, site=last), "x"), []),
        "by state": (lambda: _list(cast.staff, "status=FAILED"), [{"job_by_status"}]),
        "by type": (lambda: _list(cast.staff, "type=RARE"), [{"job_by_type"}]),
        "by site": (lambda: _list(cast.staff, f"site={last.pk}"), [{"job_by_site"}]),
        "by customer": (lambda: _list(crowd.newcomer, ""), [{"job_by_customer"}]),
    }


def test_each_hot_act_reads_its_indexes_and_no_table(crowd: Crowd) -> None:
    """Queue I4, I3."""
    wrong = []
    for name, (act, wanted) in _acts(crowd).items():
        found = _plan_of(act)
        wrong += [f"{name}: {complaint}" for complaint in _complaints(found, wanted)]
    assert not wrong, "\n".join(wrong)


def _complaints(found: set[str], wanted: list[set[str]]) -> list[str]:
    missing = [alternatives for alternatives in wanted if not alternatives & found]
    # Of a table as small as that of dependencies here, reading all of it is right.
    bad = [read for read in sorted(found) if read.startswith(BAD) and "jobs_jobdependency" not in read]
    return [*bad, *(f"none of {one}" for one in missing)]


def test_a_claim_beside_a_full_server_reads_the_index_by_server(crowd: Crowd, settings: Settings) -> None:
    """Queue I4."""
    settings.MAX_JOBS_PER_SERVER = Job.objects.filter(status=Status.RUNNING, server=crowd.cast.server).count()
    found = _plan_of(lambda: queue.claim(worker(), [0], ["SAMPLE_LOOK"]))
    assert "job_claim_on_server" in found
    assert _complaints(found, []) == []


def test_who_waits_for_a_job_is_found_by_the_index(crowd: Crowd) -> None:
    with transaction.atomic():
        found = _plan_of(lambda: transitions.hold([crowd.parent.pk]))
    assert _complaints(found, []) == []


def test_a_planted_scan_is_found(crowd: Crowd) -> None:
    """The check itself: a question for which there is no index."""
    found = _plan_of(lambda: list(Job.objects.filter(error_code="x")))
    assert {read[:8] for read in found} == {"no index"}


# --- How many queries ----------------------------------------------------------------------------
KINDS: dict[str, dict[str, object]] = {
    "ended": {"status": Status.SUCCESS, "readiness": Readiness.NONE},
    "later": {"readiness": Readiness.LATER, "scheduled_at": "2200-01-01T00:00:00Z"},
    "behind": {"readiness": Readiness.BEHIND},
    "shut out": {"readiness": Readiness.SITE},
    "dependent": {"readiness": Readiness.PARENT},
    "ready": {"readiness": Readiness.READY},
    "paused": {"readiness": Readiness.PAUSED},
}


def _count(act: Callable[[], object]) -> int:
    with transaction.atomic():
        with CaptureQueriesContext(connection) as captured:
            act()
        transaction.set_rollback(True)
    return len(captured)


def _counts(site: Site, free: Site, held: Job) -> dict[str, int]:
    who = worker("counting")
    due = Job.objects.filter(readiness=Readiness.LATER).order_by("pk")[:1].values("pk")
    Job.objects.filter(pk__in=list(due.values_list("pk", flat=True))).update(scheduled_at=database_now())
    return {
        "get due": _count(queue.get_due_in_line),
        "claim": _count(lambda: queue.claim(who, [0], ["SAMPLE_LOOK"])),
        "end": _count(lambda: _end(held, Status.SUCCESS)),
        "submit": _count(lambda: submitted(site)),
        "submit elsewhere": _count(lambda: submitted(free, "SAMPLE_LOOK")),
        "sweep": _count(recovery.sweep),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_no_act_takes_more_queries_where_more_jobs_are(cast: Cast, settings: Settings, kind: str) -> None:
    """Queue I7: one and three hundred rows of each kind."""
    settings.MAX_WORKERS, settings.CHP_TYPE_LIMITS = 64, {}
    sites = [make_site(cast, f"q{number}.test") for number in range(3)]
    submitted(sites[0], "SAMPLE_CHANGE")
    (held,) = queue.claim(worker("holder"), [0], TYPES)
    later = submitted(sites[2], "SAMPLE_LOOK", scheduled_at=database_now() + timedelta(hours=1))
    first = submitted(sites[0], "SAMPLE")
    ready = submitted(sites[2], "SAMPLE_LOOK")
    pattern = {"ready": ready, "later": later}.get(kind, first)
    change = {**KINDS[kind], "blocked_by_id": held.pk if kind == "shut out" else None}
    _copies(pattern, 1, **change)
    few = _counts(sites[0], sites[1], held)
    _copies(pattern, 300, **change)
    assert _counts(sites[0], sites[1], held) == few
    assert SiteGate.objects.filter(site=sites[0], exclusive=1).exists()


def test_what_has_waited_long_is_found_by_the_index(crowd: Crowd) -> None:
    """SQLite: a partial index on `IN (...)` is never used with bound values, so each look reads the table."""
    some = Job.objects.filter(readiness=Readiness.READY).values_list("pk", flat=True)[:3]
    Job.objects.filter(pk__in=list(some)).update(waiting_since=database_now() - timedelta(hours=7))
    assert _complaints(_plan_of(aging.raise_priorities), [{"job_aging"}]) == []


def test_the_past_of_a_site_is_not_read_with_its_line(crowd: Crowd) -> None:
    """SQLite: for the same reason all that the site has ever done is read instead of what stands in line."""
    acts = _acts(crowd)
    found = {name: _plan_of(acts[name][0]) for name in ("submit", "cancel", "pause")}
    assert [name for name, reads in found.items() if "job_by_site" in reads] == []


def test_mending_does_not_read_the_table_in_the_order_of_keys(crowd: Crowd) -> None:
    """SQLite: the order of the model, which nobody asked for, is kept by reading all rows."""
    found = _plan_of(recovery.mend)
    assert connection.vendor != "sqlite" or _complaints(found, []) == []


def test_whether_there_is_ready_work_is_seen_at_the_head_of_an_index(crowd: Crowd) -> None:
    """PostgreSQL: `LIMIT 1` without an order reads the table from its start, past all that has ended."""
    _copies(submitted(crowd.sites[-1], "SAMPLE_LOOK"), 5000)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_job")
    found = _plan_of(lambda: queue.claim(worker(), [0], TYPES))
    assert _complaints(found, []) == []

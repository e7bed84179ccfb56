"""Statements of the hot road: what they read is what the ORM reads, with and without kept plans."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from audit.clock import database_now
from jobs import queue, registry, statements
from jobs.database import insist
from jobs.execution import run_hand
from jobs.models import Job, JobPolicy, SiteGate
from jobs.queries import HELD_SQL, fetch
from jobs.statements import Columns, among, planned_once, together
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db
COUNT = "SELECT COUNT(*) FROM jobs_job WHERE status = %s"


@pytest.fixture
def kept() -> Iterator[None]:
    """Keep plans, as in a worker."""
    with planned_once():
        yield


def _prepared() -> list[str]:
    """Give the plans of COUNT that the database keeps for this connection; SQLite keeps none."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        asked = "SELECT name FROM pg_prepared_statements WHERE statement LIKE %s"
        cursor.execute(asked, ["%SELECT COUNT(*) FROM jobs_job WHERE status%"])
        return [name for (name,) in cursor.fetchall()]


def _count(status: Status) -> int:
    with connection.cursor() as cursor:
        statements.run(cursor, COUNT, [status.value])
        return int(cursor.fetchone()[0])


def test_a_row_is_read_as_the_orm_reads_it(cast: Cast) -> None:
    submitted(cast.site)
    moved(submitted(cast.foreign_site), Status.RUNNING)
    for model in (Job, JobPolicy, SiteGate):
        columns = Columns(model)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {columns.sql} FROM {columns.table} ORDER BY 1")
            found = [columns.instance(row) for row in cursor.fetchall()]
        wanted = list(model.objects.order_by("pk"))
        assert [vars(one) | {"_state": None} for one in found] == [
            vars(one) | {"_state": None} for one in wanted
        ]
        assert all(one._state.db == "default" and not one._state.adding for one in found)


def test_what_jobs_refer_to_comes_with_them_and_each_once(cast: Cast) -> None:
    jobs = [moved(submitted(cast.site, "SAMPLE_LOOK"), Status.RUNNING) for _ in range(2)]
    related = ("site", "customer", "server", "plan")
    with pytest.MonkeyPatch.context() as patch:
        found = fetch([job.pk for job in jobs], HELD_SQL, related)
        # Nothing more is read: from here on every statement is a fault.
        patch.setattr(connection, "cursor", lambda *_: pytest.fail("a further statement"))
        assert [(job.site, job.customer, job.server, job.plan) for job in found] == [
            (cast.site, cast.customer, cast.server, None)
        ] * 2
        assert found[0].site is found[1].site
    assert fetch([jobs[0].pk], "jobs_job.readiness = 'READY'", ()) == []


def test_a_plan_is_kept_and_gives_the_same(cast: Cast, kept: None) -> None:
    assert _count(Status.QUEUED) == 0
    before = _prepared()
    submitted(cast.site)
    assert _count(Status.QUEUED) == 1
    assert _count(Status.RUNNING) == 0
    assert _prepared() == before
    assert len(before) == (1 if connection.vendor == "postgresql" else 0)


def test_a_plan_is_made_anew_after_a_while(kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "PLAN_SECONDS", 0.0)
    seen = []
    for _ in range(3):
        assert _count(Status.QUEUED) == 0
        seen += _prepared()
    assert len(set(seen)) == len(seen) == (3 if connection.vendor == "postgresql" else 0)


def test_no_more_plans_are_kept_than_are_allowed(kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim's text depends on which types and servers have room: the oldest plan makes way."""
    monkeypatch.setattr(statements, "MOST_PLANS", 2)
    for number in range(5):
        with connection.cursor() as cursor:
            statements.run(cursor, f"{COUNT} AND id > {number}", ["QUEUED"])
            assert cursor.fetchone() == (0,)
    many = sum("AND id >" in text for plans in statements._planned.values() for text in plans)
    assert many == (2 if connection.vendor == "postgresql" else 0)
    assert len(_prepared()) == many


def test_a_plan_that_somebody_has_taken_away_is_trouble_which_passes(cast: Cast, kept: None) -> None:
    """Queue A8: as behind a pooler that gave this transaction another connection."""
    assert _count(Status.QUEUED) == 0
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DEALLOCATE ALL")
        with pytest.raises(OperationalError, match="no longer fits"), transaction.atomic():
            _count(Status.QUEUED)
        statements._planned.clear()
    assert _count(Status.QUEUED) == 0


def test_a_plan_outlives_a_transaction_that_is_rolled_back(cast: Cast, kept: None) -> None:
    with pytest.raises(OperationalError, match="not to be"), transaction.atomic():
        assert _count(Status.QUEUED) == 0
        raise OperationalError("not to be")
    submitted(cast.site)
    assert _count(Status.QUEUED) == 1


def test_without_the_setting_no_plan_is_kept(settings: Any) -> None:
    """Queue A8: behind a pooler the next transaction may have another connection."""
    settings.CHP_PREPARED_STATEMENTS = False
    before = _prepared()
    with planned_once():
        assert _count(Status.QUEUED) == 0
    assert _prepared() == before


def test_several_queries_together_give_the_rows_of_each(cast: Cast, kept: None) -> None:
    submitted(cast.site)
    which, values = among([cast.site.pk, cast.foreign_site.pk])
    asked = f"SELECT id FROM sites_site WHERE id {which} ORDER BY id"
    found = together([(COUNT, ["QUEUED"]), (COUNT, ["RUNNING"]), (asked, values)])
    assert found == [[(1,)], [(0,)], sorted([(cast.site.pk,), (cast.foreign_site.pk,)])]


def test_a_job_goes_its_whole_way_by_kept_plans(cast: Cast, kept: None) -> None:
    job = submitted(cast.site, "SAMPLE_LOOK")
    (claimed,) = queue.claim(worker(), [0], registry.known_types())
    run_hand([(claimed.pk, claimed.claim_token)])
    job.refresh_from_db()
    assert job.status == Status.SUCCESS
    assert job.completed_at is not None
    assert job.completed_at <= database_now()


@pytest.mark.django_db(transaction=True)
def test_a_column_that_changes_its_type_is_trouble_which_passes(cast: Cast, kept: None) -> None:
    """A migration beside a worker: the statement is repeated on a new connection, and nobody dies of it."""
    known, place = worker(), registry.known_types()
    submitted(cast.site, "SAMPLE_LOOK")
    assert len(queue.claim(known, [0], place)) == 1
    submitted(cast.foreign_site, "SAMPLE_LOOK")
    _widen(120)
    try:
        assert len(insist(lambda: queue.claim(known, [1], place))) == 1
    finally:
        _widen(100)


def _widen(length: int) -> None:
    """Change the type of a column by another connection; SQLite has no such statement, and no kept plan."""
    if connection.vendor == "postgresql":
        parameters = connection.get_connection_params()
        chosen = {
            name: value for name, value in parameters.items() if name not in ("cursor_factory", "context")
        }
        with psycopg.connect(**chosen) as other:
            other.execute(f"ALTER TABLE jobs_job ALTER COLUMN worker_name TYPE varchar({length})")

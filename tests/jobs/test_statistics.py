"""Figures of the queue: what they count, and what that costs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from accounts.actor import operator
from audit import clock
from audit.clock import database_now
from jobs import pauses
from jobs.models import PauseScope
from jobs.pauses import Target
from jobs.states import Readiness, Status
from jobs.statistics import figures
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db
# What each question reads, in their order: any index that holds only the kind that is asked for, or the
# state's. PostgreSQL chooses among these by what its tables held lately.
INDEXES = (
    *("job_(by_status|closing)", "job_ended", "job_(turn|claim|head|customer_turn)", "job_later"),
    *("job_dependent", "job_(blocked|head|customer_turn)", "job_(behind|customer_turn)"),
    *("job_(by_site|head|customer_turn)", "worker_alive"),
)
# Along these it would read every job there is.
EVERY_JOB = r"Seq Scan on jobs_job|SCAN jobs_job$|jobs_job_pkey|job_by_(customer|type)"
Asked = list[tuple[str, Any]]


@contextmanager
def asked() -> Iterator[Asked]:
    """Collect statements with their parameters, as the database gets them."""
    seen: Asked = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield seen


def plan_of(sql: str, params: Any) -> str:
    """Give how the database would read this; on PostgreSQL as if its tables were large."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}", params)
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_every_kind_of_job_is_counted_in_its_place(cast: Cast) -> None:
    root = operator("root")
    submitted(cast.site)
    submitted(cast.site)
    submitted(cast.foreign_site, scheduled_at=database_now() + timedelta(hours=1))
    parent = submitted(cast.foreign_site)
    submitted(cast.foreign_site, "SAMPLE_LOOK", after=(parent.code,))
    moved(submitted(cast.read_only_site), Status.RUNNING)
    submitted(cast.read_only_site)
    paused, lost, stopping = (make_site(cast, f"{name}.test") for name in ("paused", "lost", "stopping"))
    submitted(paused)
    pauses.pause(root, Target(PauseScope.SITE, site=paused), "a test")
    moved(moved(submitted(lost), Status.RUNNING), Status.ORPHANED)
    moved(moved(submitted(stopping), Status.RUNNING), Status.CANCEL_REQUESTED)
    worker()
    found = figures()
    assert (found.running, found.orphaned, found.workers_alive) == (2, 1, 1)
    assert found.ready == 2
    assert found.waiting == {
        Readiness.LATER: 1,
        Readiness.PARENT: 1,
        Readiness.SITE: 1,
        Readiness.BEHIND: 1,
        Readiness.PAUSED: 1,
    }
    assert found.queued == 7


def test_today_begins_at_midnight_utc(cast: Cast) -> None:
    noon = database_now().replace(hour=12)
    for hours, end in ((13, Status.SUCCESS), (1, Status.SUCCESS), (1, Status.FAILED), (13, Status.FAILED)):
        with clock.override(noon - timedelta(hours=hours)):
            moved(moved(submitted(cast.site), Status.RUNNING), end)
    moved(submitted(cast.site), Status.CANCELLED)
    with clock.override(noon):
        found = figures()
    assert (found.completed_today, found.failed_today) == (1, 1)


def test_an_empty_queue_is_all_zeros() -> None:
    found = figures()
    assert (found.running, found.queued, found.orphaned, found.workers_alive) == (0, 0, 0, 0)


def test_the_number_of_queries_is_constant_and_each_reads_an_index(cast: Cast) -> None:
    with asked() as few:
        figures()
    for _ in range(20):
        submitted(cast.site)
    with asked() as many:
        figures()
    assert len(few) == len(many) <= 12
    counts = [(sql, params) for sql, params in many if "jobs_job" in sql or "jobs_worker" in sql]
    for (sql, params), index in zip(counts, INDEXES, strict=True):
        plan = plan_of(sql, params)
        assert re.search(index, plan), (sql, plan)
        assert not re.search(EVERY_JOB, plan, re.MULTILINE), (sql, plan)

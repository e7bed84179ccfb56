"""Rows that stand in the queue are whole copies of a job, and are not run before the measured jobs."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import queued_jobs, standing_rows
from benchmarks.records import STANDING, VARIABLE, RunLog
from jobs.models import Job, JobEvent
from tests.processes import StartWorker

pytestmark = pytest.mark.usefixtures("transactional_db", "bench_operations")

ROWS = 6
NEVER = ("finished", "scheduled", "blocked")
LEFT = {
    "finished": {"SUCCESS": ROWS},
    "scheduled": {"QUEUED": ROWS},
    "blocked": {"QUEUED": ROWS, "ORPHANED": standing_rows.CLOSED_SITES},
}


def fill(kind: str) -> tuple[queued_jobs.Tenancy, set[int]]:
    """Put rows of a kind in; give the tenancy and the keys of the rows."""
    tenancy = queued_jobs.make_tenancy()
    standing_rows.insert(tenancy, kind, ROWS)
    return tenancy, set(Job.objects.exclude(status="CANCELLED").values_list("pk", flat=True))


def work(start_worker: StartWorker, path: Path) -> list[int]:
    """Let a worker of one slot run all that is ready; give the numbers of what it ran, in order."""
    log = RunLog(path)
    log.clear()
    worker = start_worker(
        "--once", "--slots", "1", **{VARIABLE: str(path), "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    )
    assert worker.wait(60) == 0
    return [record.number for record in log.read()]


@pytest.mark.parametrize("kind", NEVER)
def test_rows_that_cannot_run_are_not_run(kind: str, start_worker: StartWorker, tmp_path: Path) -> None:
    tenancy, rows = fill(kind)
    queued_jobs.submit_together(tenancy, 3)
    assert work(start_worker, tmp_path / "records") == [0, 1, 2]
    assert queued_jobs.count_unfinished(max(rows)) == 0
    assert Counter(Job.objects.filter(pk__in=rows).values_list("status", flat=True)) == LEFT[kind]


def test_rows_of_low_priority_run_last(start_worker: StartWorker, tmp_path: Path) -> None:
    tenancy, _ = fill("lowprio")
    queued_jobs.submit_together(tenancy, 3)
    assert work(start_worker, tmp_path / "records") == [0, 1, 2] + [STANDING] * ROWS


def test_every_column_but_the_different_ones_is_the_templates() -> None:
    fill("scheduled")
    template, copy = (
        Job.objects.filter(status=status).values().first() for status in ("CANCELLED", "QUEUED")
    )
    assert template is not None
    assert copy is not None
    changed = {name for name in copy if copy[name] != template[name]}
    of_the_kind = {"scheduled_at", "readiness", "waiting_since"}
    assert changed <= {"id", "uuid", "status", "completed_at"} | of_the_kind


def test_a_row_has_the_events_of_a_new_job() -> None:
    _, rows = fill("lowprio")
    events = JobEvent.objects.filter(job__in=rows).values_list("event_type", flat=True)
    assert list(events) == ["CREATED"] * ROWS

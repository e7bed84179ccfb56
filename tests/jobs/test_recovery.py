"""Rule 6: no job is stuck; what is safe to repeat is queued again, what is not waits for a person."""

from datetime import timedelta

import pytest

from accounts.actor import operator
from audit.clock import database_now
from audit.models import AuditEntry
from jobs import pipeline, recovery
from jobs.events import Line
from jobs.execution import End, _record, run_attempt
from jobs.models import EventType, Job, JobEvent
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import claimed

pytestmark = pytest.mark.django_db


def _silent(job: Job, **change: object) -> Job:
    """Let the job's last beat be an hour ago."""
    Job.objects.filter(pk=job.pk).update(heartbeat_at=database_now() - timedelta(hours=1), **change)
    job.refresh_from_db()
    return job


def test_a_lost_repeatable_job_is_queued_again_at_once(cast: Cast) -> None:
    job = _silent(claimed(cast.site))
    assert [found.pk for found in recovery.sweep()] == [job.pk]
    job.refresh_from_db()
    assert (job.status, job.attempt, job.claim_token) == (Status.QUEUED, 1, "")
    event = JobEvent.objects.filter(job=job).latest("pk")
    assert (event.event_type, event.level) == (EventType.HEARTBEAT_LOST, "WARNING")
    assert "no heartbeat of w1" in event.message


def test_a_lost_changing_job_is_orphaned_and_closes_the_site(cast: Cast) -> None:
    job = _silent(claimed(cast.site, "SAMPLE_CHANGE"))
    recovery.sweep()
    job.refresh_from_db()
    assert (job.status, job.error_code) == (Status.ORPHANED, "worker_lost")
    assert "a person must decide" in job.error_message
    assert AuditEntry.objects.latest("sequence").action == "job.orphaned"


def test_a_job_that_kills_its_workers_stops_at_its_last_attempt(cast: Cast) -> None:
    """Queue B4."""
    job = _silent(claimed(cast.site), attempt=3)
    recovery.sweep()
    job.refresh_from_db()
    assert job.status == Status.FAILED
    assert "attempt 3 of 3 was the last" in job.error_message


def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(cast: Cast) -> None:
    job = claimed(cast.site)
    pipeline.cancel(operator("root"), job.pk, "not needed")
    _silent(job)
    recovery.sweep()
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_a_beating_job_is_left_alone_and_a_stale_one_among_many_is_found(cast: Cast) -> None:
    """Queue B6."""
    beating = [claimed(make_site(cast, f"s{number}.test")) for number in range(3)]
    stale = _silent(claimed(cast.site))
    assert [job.pk for job in recovery.sweep()] == [stale.pk]
    assert Job.objects.filter(pk__in=[job.pk for job in beating], status=Status.RUNNING).count() == 3


def test_the_limit_of_silence_is_the_rows_own(cast: Cast) -> None:
    """Queue B7: policy travels with the job."""
    _silent(claimed(cast.site), stale_seconds=7200)
    assert recovery.sweep() == []


def test_a_rescue_that_comes_too_late_changes_nothing(cast: Cast) -> None:
    """Queue A4: the stale set was read, then the job ended or was claimed anew."""
    job = _silent(claimed(cast.site))
    seen = Job.objects.get(pk=job.pk)
    run_attempt(job.pk, job.claim_token)
    assert recovery.lose(seen, "too late") is False
    assert Job.objects.get(pk=job.pk).status == Status.SUCCESS
    again = claimed(make_site(cast, "other.test"))
    seen = Job.objects.get(pk=again.pk)
    Job.objects.filter(pk=again.pk).update(claim_token="2:newer")
    assert recovery.lose(seen, "too late") is False


def test_the_old_worker_that_comes_back_writes_a_late_result_only(cast: Cast) -> None:
    """Queue A5, and J of the trail: the rejected end is recorded."""
    from jobs import execution
    from jobs.events import Line

    job = claimed(cast.site)
    old = Job.objects.select_related("site", "customer", "plan").get(pk=job.pk)
    _silent(job)
    recovery.sweep()
    execution._record([(old, execution.End(Status.SUCCESS, Line(EventType.SUCCESS, "done")))])
    job.refresh_from_db()
    assert job.status == Status.QUEUED
    assert JobEvent.objects.filter(job=job, event_type=EventType.LATE_RESULT).count() == 1
    assert AuditEntry.objects.latest("sequence").action == "job.result_late"


def test_a_late_end_of_the_kind_that_a_person_decided_is_told_too(cast: Cast) -> None:
    """Queue A5: resolved as FAILED meanwhile; that it failed, and how, is news all the same."""
    job = claimed(cast.site, "SAMPLE_CHANGE")
    recovery.lose(job, "a test")
    pipeline.resolve(operator("root"), job.pk, Status.FAILED, "looked: not done")
    line = Line(EventType.FAILED, "it broke half way")
    _record([(job, End(Status.FAILED, line, {"error_message": line.message}))])
    assert JobEvent.objects.filter(job=job, event_type=EventType.LATE_RESULT).count() == 1

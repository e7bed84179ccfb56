"""How attempts end: each way out of an operation, and what is recorded of it."""

import pytest
from pytest_django import Settings

from accounts.actor import operator
from audit.models import AuditEntry
from jobs import pipeline, recovery
from jobs.execution import run_attempt
from jobs.models import EventType, Job, JobEvent
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import claimed, submitted

pytestmark = pytest.mark.django_db

ENDS = [
    # operation, payload, state, attempt left in the row, error code
    ("SAMPLE", {}, Status.SUCCESS, 1, ""),
    ("SAMPLE", {"how": "fail"}, Status.QUEUED, 1, "failed"),
    ("SAMPLE", {"how": "refuse"}, Status.FAILED, 1, "failed"),
    ("SAMPLE", {"how": "busy"}, Status.QUEUED, 0, "not_started"),
    ("SAMPLE", {"how": "lose"}, Status.QUEUED, 1, "work_lost"),
    ("SAMPLE", {"how": "break"}, Status.FAILED, 1, "internal"),
    ("SAMPLE", {"how": "unsettled"}, Status.FAILED, 1, "not_settled"),
    ("SAMPLE_CHANGE", {}, Status.SUCCESS, 1, ""),
    ("SAMPLE_CHANGE", {"how": "fail"}, Status.FAILED, 1, "failed"),
    ("SAMPLE_CHANGE", {"how": "busy"}, Status.QUEUED, 0, "not_started"),
    ("SAMPLE_CHANGE", {"how": "lose"}, Status.ORPHANED, 1, "work_lost"),
    ("SAMPLE_CHANGE", {"how": "unsettled"}, Status.ORPHANED, 1, "not_settled"),
]


def _run(job: Job) -> Job:
    run_attempt(job.pk, job.claim_token)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(("operation", "payload", "status", "attempt", "code"), ENDS)
def test_each_way_out_ends_as_the_design_says(
    cast: Cast, operation: str, payload: dict[str, str], status: str, attempt: int, code: str
) -> None:
    """Rule 7 among them: what mutates is never repeated by itself."""
    job = _run(claimed(cast.site, operation, payload))
    assert (job.status, job.attempt, job.error_code) == (status, attempt, code)
    assert job.claim_token == ""
    assert AuditEntry.objects.latest("sequence").target == job.code


def test_success_keeps_result_and_progress(cast: Cast) -> None:
    job = _run(claimed(cast.site))
    assert (job.result, job.progress_percent, job.error_message) == ({"done": True}, 100, "")
    assert job.completed_at is not None


def test_an_attempt_is_the_last_when_the_policy_in_the_row_says_so(cast: Cast) -> None:
    job = claimed(cast.site, payload={"how": "fail"})
    Job.objects.filter(pk=job.pk).update(attempt=3)
    job.attempt = 3
    assert _run(job).status == Status.FAILED


def test_the_delay_before_a_retry_comes_from_the_row(cast: Cast) -> None:
    job = claimed(cast.site, payload={"how": "fail"})
    Job.objects.filter(pk=job.pk).update(retry_delays=[1800, 3600])
    assert _run(job).scheduled_at > job.created_at
    assert (job.scheduled_at - job.created_at).total_seconds() >= 1800


def test_a_result_that_comes_late_becomes_an_event_and_changes_nothing(cast: Cast) -> None:
    """Rule 1; queue A5: the site was handed to a newer claim meanwhile."""
    job = claimed(cast.site)
    old_token = job.claim_token

    Job.objects.filter(pk=job.pk).update(claim_token="2:newer", epoch=2)
    run_attempt(job.pk, old_token)
    job.refresh_from_db()
    assert (job.status, job.claim_token) == (Status.RUNNING, "2:newer")
    assert not JobEvent.objects.filter(job=job, event_type=EventType.SUCCESS).exists()


def test_cancellation_stops_at_a_checkpoint(cast: Cast) -> None:
    job = claimed(cast.site, payload={"seconds": 5})
    pipeline.cancel(operator("root"), job.pk, "not needed")
    job = _run(job)
    assert (job.status, job.error_code) == (Status.CANCELLED, "cancelled")
    assert "working" in job.error_message


@pytest.mark.parametrize(
    ("operation", "status"), [("SAMPLE", Status.CANCELLED), ("SAMPLE_CHANGE", Status.ORPHANED)]
)
def test_a_change_that_could_not_be_stopped_is_never_called_cancelled(
    cast: Cast, operation: str, status: str
) -> None:
    """Rules 2 and 6: its site stays closed until a person has looked."""
    job = claimed(cast.site, operation, {"how": "unstoppable"})
    pipeline.cancel(operator("root"), job.pk, "not needed")
    assert _run(job).status == status


def test_cancellation_wins_over_a_further_attempt(cast: Cast) -> None:
    """Queue D4."""
    job = claimed(cast.site, payload={"how": "fail"})
    pipeline.cancel(operator("root"), job.pk, "not needed")
    assert _run(job).status == Status.CANCELLED


def test_work_that_ended_first_keeps_its_end_in_spite_of_cancellation(cast: Cast) -> None:
    """Queue D1."""
    job = claimed(cast.site)
    pipeline.cancel(operator("root"), job.pk, "too late")
    assert _run(job).status == Status.SUCCESS


def test_a_passed_deadline_ends_the_job_as_timed_out(cast: Cast) -> None:
    job = claimed(cast.site, payload={"seconds": 5})
    job.deadline_at = job.started_at
    Job.objects.filter(pk=job.pk).update(deadline_at=job.started_at)
    job = _run(job)
    assert (job.status, job.error_code) == (Status.FAILED, "timed_out")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"payload": {"how": "work", "command": "id"}}, "command: this key is not known"),
        ({"requested_kind": "CUSTOMER", "requested_by_user_id": None}, "the right BACKUP is missing"),
        ({"job_type": "SAMPLE_LOOK", "payload": {"how": 7}}, "how"),
    ],
)
def test_everything_is_checked_again_before_execution(
    cast: Cast, change: dict[str, object], words: str
) -> None:
    """Rule 5: what was written into the table behind the pipeline's back is refused, cleanly."""
    job = claimed(cast.site)
    Job.objects.filter(pk=job.pk).update(**change)
    job = _run(job)
    assert job.status == Status.FAILED
    assert words in job.error_message
    assert not JobEvent.objects.filter(job=job, event_type=EventType.STARTED).exists()


def test_a_job_of_a_type_that_is_gone_fails_by_name_after_a_grace(cast: Cast, settings: Settings) -> None:
    """Rule 8."""
    job = submitted(cast.site)
    Job.objects.filter(pk=job.pk).update(job_type="GONE")
    assert recovery.sweep() == []
    Job.objects.filter(pk=job.pk).update(created_at="2020-01-01T00:00:00Z")
    recovery.sweep()
    job.refresh_from_db()
    assert (job.status, job.error_message) == (Status.FAILED, "unknown job type: GONE")


def test_no_transaction_is_open_while_the_work_is_done(cast: Cast) -> None:
    """Rule 3: seen by the operation itself."""
    from django.db import connection

    from tests.jobs.sample_operations import Sample

    seen: list[int] = []
    depth = len(connection.atomic_blocks)
    original = Sample.run

    def run(self: Sample, context: object, payload: object) -> dict[str, object]:
        seen.append(len(connection.atomic_blocks))
        return original(self, context, payload)  # type: ignore[arg-type]

    Sample.run = run  # type: ignore[assignment,method-assign]
    try:
        _run(claimed(cast.site))
    finally:
        Sample.run = original  # type: ignore[method-assign]
    assert seen == [depth]

"""Retry by people: with a reason, of what has failed, by whoever may ask; never past an approval."""

import pytest

from accounts.actor import actor_for, operator
from audit.models import AuditEntry
from jobs import pipeline
from jobs.exceptions import ApprovalRequired, Forbidden, Invalid, NotVisible, UnknownOperation, WrongState
from jobs.models import EventType, Job, JobEvent
from jobs.queue import claim
from jobs.request import JobRequest
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.sample_operations import SampleChange
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("root")


@pytest.fixture
def failed(cast: Cast) -> Job:
    """A job of the owner's that has spent its attempts."""
    job = pipeline.submit(
        actor_for(cast.owner, "panel"),
        JobRequest("SAMPLE", cast.site.pk, {"seconds": 0.0}, idempotency_key="k", reason="nightly"),
    ).job
    (taken,) = claim(worker(), range(1), ["SAMPLE"])
    moved(taken, Status.FAILED, attempt=3, error_code="failed", error_message="it did not work")
    job.refresh_from_db()
    return job


def test_a_retried_job_keeps_its_identity_and_gets_fresh_attempts(cast: Cast, failed: Job) -> None:
    """Queue G9."""
    before = Job.objects.get(pk=failed.pk)
    pipeline.retry(actor_for(cast.owner, "panel"), failed.pk, "the disk is mended")
    after = Job.objects.get(pk=failed.pk)
    assert (after.status, after.attempt, after.epoch, after.error_message) == (Status.QUEUED, 0, 1, "")
    for name in ("payload", "requested_by", "created_at", "idempotency_key", "fingerprint", "reason", "uuid"):
        assert getattr(after, name) == getattr(before, name)
    (taken,) = claim(worker(), range(1), ["SAMPLE"])
    assert (taken.pk, taken.epoch, taken.attempt) == (failed.pk, 2, 1)


def test_it_is_in_the_history_and_in_the_trail(cast: Cast, failed: Job) -> None:
    pipeline.retry(ROOT, failed.pk, "once more")
    line = JobEvent.objects.filter(job=failed, event_type=EventType.RETRY).get()
    assert (line.message, line.data) == ("once more", {"from": "FAILED", "to": "QUEUED"})
    entry = AuditEntry.objects.get(target=failed.code, action="job.requeued")
    assert (entry.actor, entry.reason) == ("root (command)", "once more")


def test_twice_at_once_is_once(cast: Cast, failed: Job) -> None:
    """Queue E4: each is decided by the row as it is."""
    pipeline.retry(ROOT, failed.pk, "once")
    with pytest.raises(WrongState, match="is queued; only a failed or orphaned job"):
        pipeline.retry(ROOT, failed.pk, "twice")
    assert AuditEntry.objects.filter(target=failed.code, action="job.requeued").count() == 1


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.CANCELLED, Status.RUNNING])
def test_only_what_failed_or_is_orphaned_is_retried(cast: Cast, status: Status) -> None:
    job = claimed(cast.site)
    if status == Status.SUCCESS:
        moved(job, Status.SUCCESS)
    elif status == Status.CANCELLED:
        moved(job, Status.CANCEL_REQUESTED)
        moved(job, Status.CANCELLED)
    with pytest.raises(WrongState):
        pipeline.retry(ROOT, job.pk, "again")


def test_an_orphan_is_for_staff_to_decide(cast: Cast) -> None:
    orphan = moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    with pytest.raises(Forbidden, match="Only staff may decide"):
        pipeline.retry(actor_for(cast.owner, "panel"), orphan.pk, "again")
    pipeline.retry(actor_for(cast.staff, "admin"), orphan.pk, "looked at: nothing was done")
    orphan.refresh_from_db()
    assert orphan.status == Status.QUEUED


def test_what_ran_with_an_approval_needs_a_new_one(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 7, by this way in."""
    orphan = moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    monkeypatch.setattr(SampleChange, "needs_plan", True)
    with pytest.raises(ApprovalRequired, match=r"served one run\. Ask for the sample change again"):
        pipeline.retry(ROOT, orphan.pk, "again")
    orphan.refresh_from_db()
    assert orphan.status == Status.ORPHANED


@pytest.mark.parametrize("who", ["read_only_member", "stranger"])
def test_who_may_not_ask_may_not_retry(cast: Cast, failed: Job, who: str) -> None:
    user = getattr(cast, {"read_only_member": "onlooker"}.get(who, who))
    with pytest.raises((Forbidden, NotVisible)):
        pipeline.retry(actor_for(user, "panel"), failed.pk, "again")
    failed.refresh_from_db()
    assert failed.status == Status.FAILED


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", "x" * 1001])
def test_a_reason_is_asked_for(cast: Cast, failed: Job, reason: str) -> None:
    with pytest.raises(Invalid):
        pipeline.retry(ROOT, failed.pk, reason)


def test_cancellation_wins_over_a_further_attempt(cast: Cast) -> None:
    """Queue D4."""
    from jobs import execution
    from jobs.events import Line

    job = claimed(cast.site)
    pipeline.cancel(ROOT, job.pk, "stop it")
    end = execution.End(Status.QUEUED, Line(EventType.RETRY, "failed; again later"))
    execution._record([(job, end)])
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Status.CANCELLED, 1)


def test_a_job_whose_type_is_gone_cannot_be_retried_but_called_off(cast: Cast) -> None:
    """Queue H1."""
    job = submitted(cast.site)
    Job.objects.filter(pk=job.pk).update(job_type="GONE")
    pipeline.cancel(ROOT, job.pk, "its type is gone")
    with pytest.raises(UnknownOperation):
        pipeline.retry(ROOT, job.pk, "again")

"""Rule 1: every write of a claim matches state and token; a late one changes nothing."""

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEntry
from jobs import transitions
from jobs.events import Line
from jobs.exceptions import IllegalMove
from jobs.models import EventType, Job, JobEvent
from jobs.states import Status
from jobs.transitions import Move
from tests.cast import Cast
from tests.jobs.samples import claimed, submitted

pytestmark = pytest.mark.django_db


def _move(job: Job, to: Status) -> list[Job]:
    with transaction.atomic():
        return transitions.apply([Move(job, to, Line(EventType.SUCCESS), "test", "SYSTEM")])


def test_a_move_writes_state_event_and_audit_entry_together(cast: Cast) -> None:
    job = claimed(cast.site)
    assert _move(job, Status.SUCCESS) == [job]
    job.refresh_from_db()
    assert (job.status, job.claim_token) == (Status.SUCCESS, "")
    assert JobEvent.objects.filter(job=job, event_type=EventType.SUCCESS).exists()
    assert AuditEntry.objects.latest("sequence").action == "job.succeeded"


def test_a_move_that_the_table_lacks_raises(cast: Cast) -> None:
    with pytest.raises(IllegalMove, match="cannot go from QUEUED to SUCCESS"):
        _move(submitted(cast.site), Status.SUCCESS)


@pytest.mark.django_db(transaction=True)
def test_a_move_outside_of_a_transaction_raises(cast: Cast) -> None:
    job = submitted(cast.site)
    with pytest.raises(IllegalMove, match="only inside a transaction"):
        transitions.apply([Move(job, Status.CANCELLED, Line(EventType.CANCELLED), "test", "SYSTEM")])


@pytest.mark.parametrize("change", [{"claim_token": "2:other"}, {"status": Status.ORPHANED}])
def test_who_holds_an_old_claim_moves_nothing(cast: Cast, change: dict[str, str]) -> None:
    """Queue A4: fetched as running, moved on by somebody else, then written."""
    job = claimed(cast.site)
    Job.objects.filter(pk=job.pk).update(**change)
    entries, events = AuditEntry.objects.count(), JobEvent.objects.count()
    assert _move(job, Status.SUCCESS) == []
    assert (AuditEntry.objects.count(), JobEvent.objects.count()) == (entries, events)
    assert Job.objects.get(pk=job.pk).status == change.get("status", Status.RUNNING)


def test_the_database_itself_refuses_two_exclusive_jobs_on_one_site(cast: Cast) -> None:
    """Rule 2: also where code has gone wrong."""
    claimed(cast.site)
    second = submitted(cast.site)
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=second.pk).update(status=Status.RUNNING)


def test_an_orphaned_job_keeps_its_site_closed_in_the_database(cast: Cast) -> None:
    job = claimed(cast.site, "SAMPLE_CHANGE")
    _move(job, Status.ORPHANED)
    second = submitted(cast.site)
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=second.pk).update(status=Status.RUNNING)

"""A person's word on a job that waits for one: by staff, with a reason, and nothing is executed."""

import pytest

from accounts.actor import actor_for, operator
from audit.models import AuditEntry
from jobs import pipeline
from jobs.exceptions import Forbidden, Invalid, NotVisible, WrongState
from jobs.models import Job
from jobs.queue import claim
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("root")


@pytest.fixture
def orphan(cast: Cast) -> Job:
    """A lost change of the site."""
    return moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)


@pytest.mark.parametrize("outcome", [Status.RESOLVED, Status.FAILED])
def test_a_resolved_orphan_opens_its_site_and_is_recorded(cast: Cast, orphan: Job, outcome: Status) -> None:
    waits = submitted(cast.site)
    assert claim(worker(), range(1), ["SAMPLE"]) == []
    pipeline.resolve(ROOT, orphan.pk, outcome, "looked at: as before")
    assert [job.pk for job in claim(worker(), range(1), ["SAMPLE"])] == [waits.pk]
    entry = AuditEntry.objects.get(target=orphan.code, reason="looked at: as before")
    assert (entry.actor, entry.result) == ("root (command)", outcome)


def test_only_staff_with_the_right_may_resolve_and_only_with_a_reason(cast: Cast, orphan: Job) -> None:
    for who in (cast.owner, cast.onlooker):
        with pytest.raises(Forbidden):
            pipeline.resolve(actor_for(who, "panel"), orphan.pk, Status.RESOLVED, "x")
    with pytest.raises(NotVisible):
        pipeline.resolve(actor_for(cast.stranger, "panel"), orphan.pk, Status.RESOLVED, "x")
    with pytest.raises(Invalid):
        pipeline.resolve(ROOT, orphan.pk, Status.RESOLVED, " ")
    assert Job.objects.get(pk=orphan.pk).status == Status.ORPHANED


@pytest.mark.parametrize("outcome", [Status.QUEUED, Status.SUCCESS, Status.CANCELLED])
def test_no_other_outcome_can_be_had(orphan: Job, outcome: Status) -> None:
    """A retry of a change needs a new approval, by every way in."""
    with pytest.raises(WrongState):
        pipeline.resolve(ROOT, orphan.pk, outcome, "x")


def test_a_job_that_does_not_wait_for_a_person_cannot_be_resolved(cast: Cast) -> None:
    with pytest.raises(WrongState, match="is queued"):
        pipeline.resolve(ROOT, submitted(cast.site).pk, Status.RESOLVED, "x")

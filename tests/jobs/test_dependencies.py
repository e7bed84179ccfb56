"""Jobs that wait for others: cascade, revival, chains in one call, circles."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.actor import actor_for, operator
from audit.models import AuditEntry
from jobs import pipeline, recovery, waiting
from jobs.exceptions import Invalid, NotReady, NotVisible, WrongState
from jobs.models import EventType, Job, JobDependency, JobEvent
from jobs.queue import claim
from jobs.request import JobRequest
from jobs.states import Readiness, Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("root")
TYPES = ["SAMPLE", "SAMPLE_LOOK", "SAMPLE_CHANGE"]


def _chain(cast: Cast, *links: tuple[str, str]) -> list[Job]:
    """Submit looks at our site: each link is (label, what it waits for, separated by spaces)."""
    requests = [
        JobRequest("SAMPLE_LOOK", cast.site.pk, label=label, after=tuple(after.split()))
        for label, after in links
    ]
    return [made.job for made in pipeline.submit_chain(ROOT, requests)]


def _states(*jobs: Job) -> list[str]:
    for job in jobs:
        job.refresh_from_db()
    return [job.status for job in jobs]


def _run(job: Job, to: Status) -> Job:
    (taken,) = claim(worker(), range(1), TYPES)
    assert taken.pk == job.pk
    return moved(taken, to)


def test_a_chain_runs_one_after_another_whatever_the_order_of_the_request(cast: Cast) -> None:
    last, first, middle = _chain(cast, ("c", "b"), ("a", ""), ("b", "a"))
    assert waiting.explain([last])[last.pk] == f"waits for {middle.code} (SAMPLE_LOOK, QUEUED)"
    for job in (first, middle, last):
        _run(job, Status.SUCCESS)
    assert _states(first, middle, last) == [Status.SUCCESS] * 3


def test_a_failed_parent_calls_all_its_descendants_off_with_the_reason(cast: Cast) -> None:
    """Queue D7, E16: each is settled at once, and the site is free for others."""
    a, b, c = _chain(cast, ("a", ""), ("b", "a"), ("c", "b"))
    _run(a, Status.FAILED)
    assert _states(b, c) == [Status.CANCELLED] * 2
    assert c.error_message == f"called off with {a.code}, which it waits for and which is FAILED"
    assert JobEvent.objects.filter(job=c, event_type=EventType.CANCELLED).count() == 1
    assert AuditEntry.objects.filter(target=c.code, action="job.cancelled").count() == 1


@pytest.mark.parametrize("how", ["retry", "resolve"])
def test_what_was_called_off_comes_back_with_its_parent(cast: Cast, how: str) -> None:
    a, b, c = _chain(cast, ("a", ""), ("b", "a"), ("c", "b"))
    _run(a, Status.FAILED)
    if how == "retry":
        pipeline.retry(ROOT, a.pk, "the disk is mended")
        assert _states(a, b, c) == [Status.QUEUED] * 3
        _run(a, Status.SUCCESS)
    else:
        pipeline.resolve(ROOT, a.pk, Status.RESOLVED, "done by hand")
    for job in (b, c):
        _run(job, Status.SUCCESS)


def test_what_a_person_had_called_off_does_not_come_back(cast: Cast) -> None:
    a, b, c = _chain(cast, ("a", ""), ("b", "a"), ("c", "a"))
    pipeline.cancel(ROOT, b.pk, "not this one")
    _run(a, Status.FAILED)
    pipeline.retry(ROOT, a.pk, "again")
    assert _states(b, c) == [Status.CANCELLED, Status.QUEUED]


def test_a_called_off_child_is_not_retried_without_its_parent(cast: Cast) -> None:
    """Queue D12."""
    a, b = _chain(cast, ("a", ""), ("b", "a"))
    pipeline.cancel(ROOT, a.pk, "no")
    with pytest.raises(WrongState, match=f"called off with {a.code}; retry that one"):
        pipeline.retry(ROOT, b.pk, "please")


def test_a_job_waits_for_all_its_parents(cast: Cast) -> None:
    a, b, c = _chain(cast, ("a", ""), ("b", ""), ("c", "a b"))
    taken = claim(worker(), range(2), TYPES)
    moved(taken[0], Status.SUCCESS)
    c.refresh_from_db()
    assert c.readiness == Readiness.PARENT
    moved(taken[1], Status.SUCCESS)
    c.refresh_from_db()
    assert c.readiness == Readiness.READY
    assert {a.pk, b.pk} == {job.pk for job in taken}


def test_an_orphaned_parent_keeps_its_children_waiting(cast: Cast) -> None:
    (change, look) = (
        made.job
        for made in pipeline.submit_chain(
            ROOT,
            [
                JobRequest("SAMPLE_CHANGE", cast.site.pk, label="change"),
                JobRequest("SAMPLE_LOOK", cast.site.pk, after=("change",)),
            ],
        )
    )
    _run(change, Status.ORPHANED)
    assert _states(look) == [Status.QUEUED]
    assert "ORPHANED" in waiting.explain([look])[look.pk]


def test_a_job_may_wait_for_one_that_is_there_already(cast: Cast) -> None:
    first = submitted(cast.site)
    second = submitted(make_site(cast, "two.test"), after=(first.code,))
    assert second.readiness == Readiness.PARENT
    _run(first, Status.SUCCESS)
    _run(second, Status.SUCCESS)


def test_a_parent_that_is_done_is_not_waited_for(cast: Cast) -> None:
    done = submitted(cast.site)
    _run(done, Status.SUCCESS)
    assert submitted(cast.site, after=(done.code,)).readiness == Readiness.READY


def test_a_parent_that_failed_or_is_not_ones_own_is_refused(cast: Cast) -> None:
    failed = submitted(cast.site)
    _run(failed, Status.FAILED)
    with pytest.raises(NotReady, match=f"{failed.code} is failed"):
        submitted(cast.site, after=(failed.code,))
    foreign = submitted(cast.foreign_site)
    request = JobRequest("SAMPLE", cast.site.pk, after=(foreign.code,))
    with pytest.raises(NotVisible):
        pipeline.submit(actor_for(cast.owner, "api"), request)


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ((("a", "a"),), "a -> a"),
        ((("a", "b"), ("b", "a")), "a -> b -> a"),
        ((("a", "b"), ("b", "c"), ("c", "a")), "a -> b -> c -> a"),
        ((("x", ""), ("a", "x b"), ("b", "c"), ("c", "b")), "b -> c -> b"),
    ],
)
def test_a_circle_is_refused_with_its_path(cast: Cast, links: tuple[tuple[str, str], ...], path: str) -> None:
    """Queue E13. Dependencies of jobs that are there are never changed, so none comes about later."""
    with pytest.raises(Invalid, match=f"in a circle: {path}."):
        _chain(cast, *links)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ((("a", "b"),), "Nothing in this chain is labelled 'b'. Labels are: a."),
        ((("a", ""), ("a", "")), "Two jobs of the chain are labelled 'a'"),
        ((("JOB-1", ""),), "looks like the code of a job"),
        ((), "from 1 to 50 jobs; this one has 0"),
        (tuple((f"n{number}", "") for number in range(51)), "this one has 51"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(
    cast: Cast, links: tuple[tuple[str, str], ...], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        _chain(cast, *links)


def test_a_chain_is_made_whole_or_not_at_all(cast: Cast) -> None:
    requests = [
        JobRequest("SAMPLE", cast.site.pk, label="a"),
        JobRequest("SAMPLE", cast.site.pk, {"how": "nonsense"}, after=("a",)),
    ]
    before = AuditEntry.objects.filter(action="job.enqueued").count()
    with pytest.raises(pipeline.Refused, match="how"):
        pipeline.submit_chain(ROOT, requests)
    assert not Job.objects.exists()
    assert AuditEntry.objects.filter(action="job.enqueued").count() == before


def test_the_same_keys_give_the_same_chain(cast: Cast) -> None:
    requests = [
        JobRequest("SAMPLE", cast.site.pk, label="a", idempotency_key="k.a"),
        JobRequest("SAMPLE_LOOK", cast.site.pk, after=("a",), idempotency_key="k.b"),
    ]
    first = [made.job.pk for made in pipeline.submit_chain(ROOT, requests)]
    _run(Job.objects.get(pk=first[0]), Status.FAILED)
    assert [made.job.pk for made in pipeline.submit_chain(ROOT, requests)] == first
    assert JobDependency.objects.count() == 1


def test_many_members_release_what_waits_for_them_once(cast: Cast) -> None:
    """Queue E15, one after another; at the same moment: tests of races."""
    members = [(f"m{number}", "") for number in range(20)]
    *all_members, last = _chain(cast, *members, ("last", " ".join(label for label, _ in members)))
    for job in all_members:
        moved(job, Status.RUNNING)
    for job in all_members:
        moved(job, Status.SUCCESS)
    _run(last, Status.SUCCESS)
    assert JobEvent.objects.filter(job=last, event_type=EventType.CLAIMED).count() == 1
    assert recovery.mend() == 0


def test_another_tenants_job_is_named_nowhere_that_a_customer_reads(cast: Cast) -> None:
    """Rule 16: only staff can chain across customers; the codes stay with whom they belong to."""
    theirs = submitted(cast.foreign_site)
    ours = submitted(cast.site, after=(theirs.code,))
    told = [waiting.explain([ours])[ours.pk]]
    _run(theirs, Status.FAILED)
    pipeline.retry(ROOT, theirs.pk, "again")
    pipeline.cancel(ROOT, theirs.pk, "no")
    ours.refresh_from_db()
    with pytest.raises(WrongState) as refused:
        pipeline.retry(actor_for(cast.owner, "panel"), ours.pk, "please")
    lines = JobEvent.objects.filter(job=ours)
    told += [ours.error_message, str(refused.value), *(f"{line.message} {line.data}" for line in lines)]
    assert len(told) >= 7
    assert [text for text in told if theirs.code in text] == []


def test_a_chain_writes_the_trail_once_and_last(cast: Cast) -> None:
    """Lock order: with the head of the trail held no other lock is waited for."""
    with CaptureQueriesContext(connection) as captured:
        _chain(cast, ("a", ""), ("b", "a"), ("c", "b"))
    statements = [query["sql"] for query in captured if "RELEASE" not in query["sql"]]
    about_head = [number for number, sql in enumerate(statements) if "audit_audithead" in sql]
    after_head = statements[about_head[0] :]
    assert len(about_head) == 2
    assert [sql for sql in after_head if "jobs_" in sql and "audit_auditentry" not in sql] == []

"""Pruning: old ended jobs go in small batches, whole settled chains only; trail and keys stay."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.actor import operator
from audit.clock import database_now
from audit.models import AuditEntry
from jobs import pipeline, prune
from jobs.exceptions import KeyConflict
from jobs.models import Job, JobDependency, JobEvent, UsedKey
from jobs.request import JobRequest
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import moved, submitted

pytestmark = pytest.mark.django_db
ROOT = operator("root")


@pytest.fixture(autouse=True)
def retention(settings: Settings) -> None:
    settings.CHP_JOB_RETENTION_DAYS = 30


def _ended(cast: Cast, days: int, to: Status = Status.SUCCESS, **more: object) -> Job:
    job = submitted(cast.site, "SAMPLE_LOOK", **more)
    moved(job, Status.RUNNING)
    moved(job, to)
    _age(job, days)
    return job


def _age(job: Job, days: int) -> None:
    Job.objects.filter(pk=job.pk).update(completed_at=database_now() - timedelta(days=days))


def _left() -> set[int]:
    return set(Job.objects.values_list("pk", flat=True))


def test_what_ended_long_ago_goes_with_its_history_and_is_told_of(cast: Cast) -> None:
    old, young = _ended(cast, 31), _ended(cast, 29)
    entries = AuditEntry.objects.count()
    assert prune.prune() == 1
    assert _left() == {young.pk}
    assert not JobEvent.objects.filter(job_id=old.pk).exists()
    told = AuditEntry.objects.latest("sequence")
    assert (AuditEntry.objects.count(), told.action, told.target) == (
        entries + 1,
        "jobs.pruned",
        f"{old.code} to {old.code}",
    )


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.ORPHANED])
def test_what_has_not_ended_stays_however_old(cast: Cast, status: Status) -> None:
    job = submitted(cast.site)
    if status != Status.QUEUED:
        moved(job, Status.RUNNING)
    if status == Status.ORPHANED:
        moved(job, Status.ORPHANED)
    _age(job, 999)
    assert prune.prune() == 0


@pytest.mark.parametrize(("days", "stays"), [(0, False), (1, True)])
def test_no_days_means_at_once(cast: Cast, settings: Settings, days: int, stays: bool) -> None:
    """Queue I9: 0 is not the same as unset."""
    settings.CHP_JOB_RETENTION_DAYS = days
    job = _ended(cast, 0)
    prune.prune()
    assert (job.pk in _left()) is stays


def _chain(cast: Cast) -> tuple[Job, Job, Job]:
    first = submitted(cast.site, "SAMPLE_LOOK")
    second = submitted(cast.site, "SAMPLE_LOOK", after=(first.code,))
    third = submitted(cast.site, "SAMPLE_LOOK", after=(second.code,))
    return first, second, third


def test_a_chain_goes_whole(cast: Cast) -> None:
    jobs = _chain(cast)
    for job in jobs:
        moved(job, Status.RUNNING)
        moved(job, Status.SUCCESS)
        _age(job, 31)
    assert prune.prune() == 3
    assert not JobDependency.objects.exists()


def test_a_chain_of_which_a_part_is_young_or_open_stays_whole(cast: Cast) -> None:
    jobs = _chain(cast)
    for job in jobs[:2]:
        moved(job, Status.RUNNING)
        moved(job, Status.SUCCESS)
        _age(job, 31)
    assert prune.prune() == 0
    moved(jobs[2], Status.RUNNING)
    moved(jobs[2], Status.SUCCESS)
    assert prune.prune() == 0
    _age(jobs[2], 31)
    assert prune.prune() == 3


def test_a_chain_that_stays_does_not_hide_what_comes_after_it(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue B6, for pruning: the first page holds nothing that may go."""
    monkeypatch.setattr(prune, "BATCH", 2)
    first, second, _ = _chain(cast)
    for job in (first, second):
        moved(job, Status.RUNNING)
        moved(job, Status.SUCCESS)
        _age(job, 60)
    old = [_ended(cast, 40) for _ in range(5)]
    assert prune.prune() == 5
    assert not _left() & {job.pk for job in old}


def test_a_key_outlives_its_job(cast: Cast, settings: Settings) -> None:
    """Queue E3: a client that asks again late is told so and not served twice."""
    job = _ended(cast, 31, idempotency_key="k1")
    prune.prune()
    request = JobRequest("SAMPLE_LOOK", cast.site.pk, idempotency_key="k1")
    with pytest.raises(KeyConflict, match=f"used for {job.code}, which has ended and is no longer kept"):
        pipeline.submit(ROOT, request)
    UsedKey.objects.update(pruned_at=database_now() - timedelta(days=settings.CHP_KEY_RETENTION_DAYS + 1))
    prune.prune()
    assert pipeline.submit(ROOT, request).created


def test_many_go_in_batches_and_a_pass_ends_in_time(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queue I1: short transactions, and the next pass goes on where this one ended."""
    monkeypatch.setattr(prune, "BATCH", 3)
    for _ in range(7):
        _ended(cast, 31)
    assert prune.prune(seconds=0) == 0
    assert prune.prune() == 7


def test_a_batch_costs_the_same_number_of_queries_however_many_are_kept(cast: Cast) -> None:
    """Queue I4."""
    _ended(cast, 31)
    few = _queries()
    _ended(cast, 31)
    for _ in range(20):
        _ended(cast, 1)
    assert _queries() == few


def _queries() -> int:
    with CaptureQueriesContext(connection) as captured:
        assert prune.prune() == 1
    return len(captured)


def test_a_job_that_came_back_meanwhile_stays(cast: Cast) -> None:
    """Between the look and the lock of the rows one of a chain was retried: nothing of it goes."""
    jobs = _chain(cast)
    for job in jobs:
        moved(job, Status.RUNNING)
        moved(job, Status.FAILED if job is jobs[2] else Status.SUCCESS)
        _age(job, 31)
    pipeline.retry(ROOT, jobs[2].pk, "again")
    with transaction.atomic():
        assert prune._remove({job.pk for job in jobs}, database_now()) == 0
    assert _left() == {job.pk for job in jobs}


def test_a_job_that_is_waited_for_meanwhile_stays(cast: Cast) -> None:
    old = _ended(cast, 31)
    submitted(cast.site, "SAMPLE_LOOK", after=(old.code,))
    with transaction.atomic():
        assert prune._remove({old.pk}, database_now()) == 0
    assert old.pk in _left()

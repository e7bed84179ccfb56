"""Claiming: once per attempt, in order, within limits, never beside a conflict."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from audit.clock import database_now
from jobs import registry, waiting
from jobs.models import EventType, Job, JobEvent
from jobs.profile import Priority
from jobs.queue import beat, claim
from jobs.states import Readiness, Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import claimed, moved, submitted, worker


def _claim(places: int = 4, types: list[str] | None = None) -> list[Job]:
    return claim(worker(), range(places), registry.known_types() if types is None else types)


@pytest.mark.django_db
def test_a_claim_leaves_worker_epoch_token_deadline_and_beat_in_the_row(cast: Cast) -> None:
    job = claimed(cast.site)
    job.refresh_from_db()
    assert (job.status, job.epoch, job.attempt, job.worker_name) == (Status.RUNNING, 1, 1, "w1")
    assert len(job.claim_token) == 32
    assert (job.place, job.readiness) == (0, "")
    assert job.deadline_at is not None and job.started_at is not None and job.heartbeat_at is not None
    assert job.deadline_at - job.started_at == timedelta(seconds=60)


@pytest.mark.django_db
def test_jobs_are_handed_out_by_priority_then_time_then_key(cast: Cast) -> None:
    sites = [make_site(cast, f"s{number}.test") for number in range(4)]
    low = submitted(sites[0], priority=Priority.LOW)
    later, first = submitted(sites[1]), submitted(sites[2])
    Job.objects.filter(pk=first.pk).update(
        scheduled_at=database_now() - timedelta(minutes=1), turn=later.turn
    )
    critical = submitted(sites[3], priority=Priority.CRITICAL)
    assert [job.pk for job in _claim()] == [critical.pk, first.pk, later.pk, low.pk]


@pytest.mark.django_db
def test_a_job_of_tomorrow_and_one_of_an_unknown_type_stay(cast: Cast) -> None:
    """Queue H2: workers claim only types they know; E10: a future job holds nothing."""
    submitted(cast.site, scheduled_at=database_now() + timedelta(days=1))
    submitted(cast.site)
    (taken,) = _claim(types=["SAMPLE"])
    assert taken.scheduled_at <= database_now()
    submitted(make_site(cast, "other.test"))
    assert _claim(types=["SAMPLE_LOOK"]) == []


@pytest.mark.django_db
def test_one_exclusive_job_per_site_and_the_other_says_why_it_waits(cast: Cast) -> None:
    first, second = submitted(cast.site), submitted(cast.site)
    assert [job.pk for job in _claim()] == [first.pk]
    assert _claim() == []
    assert waiting.explain([second]) == {second.pk: f"behind {first.code} (SAMPLE, RUNNING on {cast.site})"}


@pytest.mark.django_db
def test_shared_work_runs_beside_a_backup_but_not_beside_a_change(cast: Cast) -> None:
    claimed(cast.site)
    look = submitted(cast.site, "SAMPLE_LOOK")
    assert [job.pk for job in _claim()] == [look.pk]
    for job in Job.objects.all():
        moved(job, Status.FAILED)
    claimed(cast.site, "SAMPLE_CHANGE")
    submitted(cast.site, "SAMPLE_LOOK")
    assert _claim() == []


@pytest.mark.django_db
def test_an_orphan_keeps_its_site_closed_and_is_named_as_the_reason(cast: Cast) -> None:
    """Queue E6."""
    orphan = moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    waits = submitted(cast.site)
    assert _claim() == []
    assert f"blocked by ORPHANED {orphan.code}" in waiting.explain([waits])[waits.pk]


@pytest.mark.django_db
def test_limits_hold_and_are_given_as_reason(cast: Cast, settings: Settings) -> None:
    settings.CHP_TYPE_LIMITS = {"SAMPLE": 2}
    sites = [make_site(cast, f"s{number}.test") for number in range(3)]
    jobs = [submitted(site) for site in sites]
    assert [job.pk for job in _claim()] == [job.pk for job in jobs[:2]]
    assert waiting.explain([jobs[2]])[jobs[2].pk] == "SAMPLE limit 2 of 2"


@pytest.mark.django_db
def test_a_full_limit_does_not_hide_what_stands_behind_it(cast: Cast, settings: Settings) -> None:
    """Queue I7: 300 jobs that cannot start stand before one that can."""
    settings.CHP_TYPE_LIMITS = {"SAMPLE": 1}
    claimed(cast.site)
    blocked = submitted(cast.site)
    copies = [Job(**{**_columns(blocked), "scheduled_at": blocked.scheduled_at}) for _ in range(300)]
    Job.objects.bulk_create(copies)
    free = submitted(make_site(cast, "free.test"), "SAMPLE_LOOK")
    assert [job.pk for job in _claim(1)] == [free.pk]


@pytest.mark.django_db
def test_shared_work_of_a_closed_site_does_not_hide_what_stands_behind_it(cast: Cast) -> None:
    """One customer's orphan and 300 looks at its site must not stop another's single job."""
    moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    blocked = submitted(cast.site, "SAMPLE_LOOK")
    Job.objects.bulk_create([Job(**_columns(blocked)) for _ in range(300)])
    free = submitted(cast.foreign_site, "SAMPLE_LOOK")
    assert [job.pk for job in _claim(1)] == [free.pk]


@pytest.mark.django_db
def test_a_time_in_the_past_jumps_no_order(cast: Cast) -> None:
    first = submitted(cast.site)
    second = submitted(make_site(cast, "s1.test"), scheduled_at=database_now().replace(year=1990))
    assert [job.pk for job in _claim()] == [first.pk, second.pk]


def _columns(job: Job) -> dict[str, object]:
    skipped = ("id", "uuid", "idempotency_key")
    return {
        field.attname: getattr(job, field.attname)
        for field in Job._meta.concrete_fields
        if field.name not in skipped
    }


@pytest.mark.django_db
def test_a_beat_reaches_only_claims_still_in_force(cast: Cast) -> None:
    job = claimed(cast.site)
    Job.objects.update(heartbeat_at=database_now() - timedelta(hours=1))
    stays = beat([job.claim_token, "gone"])
    assert stays == {job.claim_token}
    job.refresh_from_db()
    assert job.heartbeat_at is not None and database_now() - job.heartbeat_at < timedelta(minutes=1)


@pytest.mark.django_db
def test_a_claim_costs_the_same_number_of_queries_however_many_jobs_wait(cast: Cast) -> None:
    moved(claimed(cast.site), Status.SUCCESS)
    submitted(cast.site)
    behind = submitted(cast.site)
    few = _queries_of_claim()
    moved(Job.objects.get(status=Status.RUNNING), Status.SUCCESS)
    behind = submitted(cast.site)
    assert behind.readiness == Readiness.BEHIND
    Job.objects.bulk_create([Job(**_columns(behind)) for _ in range(500)])
    assert _queries_of_claim() == few


def _queries_of_claim() -> int:
    who = worker()
    with CaptureQueriesContext(connection) as captured:
        assert len(claim(who, range(1), ["SAMPLE"])) == 1
    return len(captured)


@pytest.mark.django_db(transaction=True)
def test_eight_claimers_at_once_claim_every_job_once_and_never_two_of_a_site(
    cast: Cast, settings: Settings
) -> None:
    """Rules 1 and 2; queue A1: 60 jobs on 20 sites."""
    settings.MAX_WORKERS = 64
    settings.CHP_TYPE_LIMITS = {}
    sites = [make_site(cast, f"s{number}.test") for number in range(20)]
    for site in sites * 3:
        submitted(site)
    with ThreadPoolExecutor(8) as pool:
        taken = [pk for batch in pool.map(_claim_all, range(8)) for pk in batch]
    claims = JobEvent.objects.filter(event_type=EventType.CLAIMED)
    assert sorted(Counter(taken).values()) == [1] * 20
    assert claims.count() == 20
    assert Job.objects.filter(status=Status.RUNNING).values("site").distinct().count() == 20


@pytest.mark.django_db(transaction=True)
def test_claimers_at_once_never_exceed_a_limit(cast: Cast, settings: Settings) -> None:
    settings.MAX_WORKERS = 64
    settings.CHP_TYPE_LIMITS = {"SAMPLE": 3}
    for number in range(16):
        submitted(make_site(cast, f"s{number}.test"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_claim_all, range(8)))
    assert Job.objects.filter(status=Status.RUNNING).count() == 3


def _claim_all(number: int) -> list[int]:
    try:
        who = worker(f"w{number}")
        found: list[int] = []
        for place in range(10):
            found += [job.pk for job in claim(who, [place], registry.known_types())]
        return found
    finally:
        connection.close()

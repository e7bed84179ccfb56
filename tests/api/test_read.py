"""Lists and details: everybody sees what is their own, and nothing else (rule 16)."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from audit.clock import database_now
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db


def _client(user: User | None) -> Client:
    client = Client()
    if user is not None:
        client.force_login(user)
    return client


def _get(user: User | None, path: str) -> Any:
    return _client(user).get(f"/api/v1/{path}")


@pytest.fixture
def backup(cast: Cast) -> Backup:
    return Backup.objects.create(
        code="BK-20260813-170001",
        site=cast.site,
        server=cast.server,
        store="archive",
        schedule_type=ScheduleType.MANUAL,
        integrity=Integrity.VERIFIED,
        created_at=database_now(),
    )


@pytest.fixture
def job(cast: Cast) -> Job:
    return submitted(cast.site, "BACKUP")


def test_the_owner_lists_own_sites_only(cast: Cast) -> None:
    domains = {row["domain"] for row in _get(cast.owner, "sites/").json()["results"]}
    assert domains == {cast.site.domain, cast.read_only_site.domain}


def test_staff_sees_all_sites(cast: Cast) -> None:
    domains = {row["domain"] for row in _get(cast.staff, "sites/").json()["results"]}
    assert {cast.site.domain, cast.foreign_site.domain} <= domains


def test_details_are_404_for_a_stranger_and_401_for_nobody(cast: Cast, job: Job, backup: Backup) -> None:
    for path in (
        f"sites/{cast.site.pk}/",
        f"jobs/{job.code}/",
        f"jobs/{job.code}/events/",
        f"backups/{backup.code}/",
    ):
        assert _get(cast.viewer, path).status_code == 200, path
        answer = _get(cast.stranger, path)
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json"), path
        assert _get(None, path).status_code == 401, path


def test_lists_of_a_stranger_are_empty_of_it(cast: Cast, job: Job, backup: Backup) -> None:
    assert _get(cast.stranger, "jobs/").json()["results"] == []
    assert _get(cast.stranger, "backups/").json()["results"] == []


def test_a_job_tells_all_that_the_lesson_shows(cast: Cast, job: Job) -> None:
    data = _get(cast.owner, f"jobs/{job.code}/").json()
    assert data["waiting_reason"] == "no live worker"
    assert (data["code"], data["type"], data["status"], data["priority"]) == (
        job.code,
        "BACKUP",
        "QUEUED",
        "NORMAL",
    )
    assert data["site"] == {"id": cast.site.pk, "domain": cast.site.domain}


def test_filters_narrow_and_wrong_values_are_named(cast: Cast, job: Job, backup: Backup) -> None:
    assert len(_get(cast.owner, "jobs/?status=QUEUED&type=BACKUP").json()["results"]) == 1
    assert _get(cast.owner, "jobs/?status=RUNNING").json()["results"] == []
    assert len(_get(cast.owner, f"backups/?site={cast.site.pk}&integrity=VERIFIED").json()["results"]) == 1
    wrong = _get(cast.owner, "jobs/?status=NOPE")
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["key"] == "status"


@pytest.mark.parametrize("query", ["site=99999999999999999999", "site=-1", "site=a%00b", "created_after=x"])
def test_hostile_filters_are_refused_not_crashed(cast: Cast, query: str) -> None:
    assert _get(cast.owner, f"jobs/?{query}").status_code == 400


def test_every_row_of_a_list_is_seen_once_by_following_next(cast: Cast) -> None:
    """Queue I6: pages go by key, not by time."""
    made = {submitted(cast.site, "BACKUP").code for _ in range(7)}
    client, seen = _client(cast.owner), []
    path = "/api/v1/jobs/?page_size=3"
    while path:
        page = client.get(path).json()
        seen += [row["code"] for row in page["results"]]
        path = page["next"]
    assert sorted(seen) == sorted(made)

"""What holds for every request: denials are recorded once, and bodies say how long they are."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from audit.actions import Action
from audit.clock import database_now
from audit.models import AuditEntry
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db


def _denials() -> int:
    return AuditEntry.objects.filter(action=Action.ACCESS_DENIED).count()


def _logged_in(user: Any, **options: bool) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


@pytest.fixture
def paths(cast: Cast) -> list[str]:
    """Acts on things of the first customer, by panel and API."""
    job = submitted(cast.site, "BACKUP")
    backup = Backup.objects.create(
        code="BK-20260813-170001",
        site=cast.site,
        server=cast.server,
        store="archive",
        schedule_type=ScheduleType.MANUAL,
        integrity=Integrity.VERIFIED,
        created_at=database_now(),
    )
    return [
        reverse("panel:back_up", args=[cast.site.pk]),
        reverse("panel:cancel", args=[job.code]),
        reverse("panel:restore", args=[backup.code]),
        reverse("panel:verify", args=[backup.code]),
        reverse("api:back_up", args=[cast.site.pk]),
        reverse("api:cancel", args=[job.code]),
        reverse("api:restore", args=[backup.code]),
        reverse("api:verify", args=[backup.code]),
        reverse("admin:sites_site_changelist"),
    ]


def test_every_refused_act_of_a_stranger_is_in_the_trail_once(cast: Cast, paths: list[str]) -> None:
    """Rule 15."""
    client = _logged_in(cast.stranger)
    for number, path in enumerate(paths[:-1], start=1):
        assert client.post(path, '{"reason": "x"}', content_type="application/json").status_code == 404, path
        assert _denials() == number, path


def test_a_forged_form_is_in_the_trail(cast: Cast, paths: list[str]) -> None:
    client = _logged_in(cast.owner, enforce_csrf_checks=True)
    assert client.post(paths[0]).status_code == 403
    assert _denials() == 1


def test_strangers_at_the_door_cannot_fill_the_trail(paths: list[str]) -> None:
    for path in paths:
        Client().post(path)
    assert _denials() == 0


@pytest.mark.parametrize("face", ["panel:back_up", "api:back_up"])
def test_a_body_without_a_length_is_refused_not_taken_for_an_empty_one(cast: Cast, face: str) -> None:
    answer = _logged_in(cast.owner).post(
        reverse(face, args=[cast.site.pk]),
        "{broken",
        content_type="application/json",
        headers={"Transfer-Encoding": "chunked"},
    )
    assert answer.status_code == 411
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        "jobs/?cursor=cD1hYmM%3D",
        "jobs/?cursor=cD0lMDA%3D",
        "jobs/?cursor=cD0xZTk5OQ%3D%3D",
        "jobs/?cursor=%FF",
        "jobs/?created_after=9999-12-31T23:59:59-14:00",
        "jobs/?created_before=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_odd_queries_are_no_errors_of_ours(cast: Cast, query: str) -> None:
    assert _logged_in(cast.owner).get(f"/api/v1/{query}").status_code in (400, 404)


def test_an_odd_token_and_an_odd_key_are_no_errors_of_ours(cast: Cast) -> None:
    odd = Client().get("/api/v1/jobs/", headers={"Authorization": "Token \u00e9"})
    assert odd.status_code == 401
    body = json.dumps({"\ud800": 1})
    path = reverse("api:back_up", args=[cast.site.pk])
    assert _logged_in(cast.owner).post(path, body, content_type="application/json").status_code == 400

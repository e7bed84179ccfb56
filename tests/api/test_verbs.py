"""Verbs of the API: 202 with the job, problems otherwise, and nothing half done."""

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from audit.actions import Action
from audit.models import AuditEntry
from backups.models import Backup, Integrity
from jobs.models import Job
from tests.api.test_read import backup  # noqa: F401 - a fixture
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db


def post(user: User, path: str, body: Any = None, **headers: str) -> Any:
    """Post JSON as this user's session."""
    client = Client()
    client.force_login(user)
    data = body if isinstance(body, str | bytes) else json.dumps(body or {})
    return client.post(f"/api/v1/{path}", data, content_type="application/json", headers=headers)


def test_back_up_answers_202_with_the_job(cast: Cast) -> None:
    answer = post(cast.owner, f"sites/{cast.site.pk}/backups/", {"reason": "before an upgrade"})
    job = Job.objects.get()
    assert answer.status_code == 202
    assert answer.json()["code"] == job.code
    assert answer["Location"].endswith(f"/api/v1/jobs/{job.code}/")
    assert (job.job_type, job.reason, job.requested_by) == (
        "BACKUP",
        "before an upgrade",
        cast.owner.username,
    )


def test_restore_answers_202_with_a_job_that_has_an_approved_plan(cast: Cast, backup: Backup) -> None:  # noqa: F811
    answer = post(cast.owner, f"backups/{backup.code}/restore/")
    job = Job.objects.select_related("plan").get()
    assert answer.status_code == 202
    assert job.plan is not None
    assert (answer.json()["plan"], job.plan.approved_by) == (job.plan.code, cast.owner.username)
    assert job.idempotency_key == f"RESTORE:{job.plan.code}"
    actions = list(AuditEntry.objects.order_by("-sequence").values_list("action", flat=True)[:3])
    assert actions == [Action.JOB_ENQUEUED, Action.PLAN_APPROVED, Action.PLAN_CREATED]


@pytest.mark.parametrize(
    "integrity", [Integrity.FAILED, Integrity.PARTIAL, Integrity.CREATING, Integrity.CORRUPTED]
)
def test_only_a_verified_backup_is_restored(cast: Cast, backup: Backup, integrity: str) -> None:  # noqa: F811
    """Rule 11; backup A8."""
    Backup.objects.update(integrity=integrity)
    answer = post(cast.owner, f"backups/{backup.code}/restore/")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_ready")
    assert not Job.objects.exists()


def test_the_same_request_gives_the_same_job_also_when_it_could_not_be_made_any_more(
    cast: Cast,
    backup: Backup,  # noqa: F811
) -> None:
    path, key = f"backups/{backup.code}/restore/", {"Idempotency-Key": "k"}
    first = post(cast.owner, path, **key)
    Backup.objects.update(integrity=Integrity.CORRUPTED)
    again = post(cast.owner, path, **key)
    assert (again.status_code, again.json()["code"]) == (202, first.json()["code"])


def test_a_customer_asks_for_manual_backups_only(cast: Cast) -> None:
    answer = post(cast.owner, f"sites/{cast.site.pk}/backups/", {"schedule_type": "MONTHLY"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert post(cast.staff, f"sites/{cast.site.pk}/backups/", {"schedule_type": "MONTHLY"}).status_code == 202


def test_another_tenants_backup_cannot_be_restored_or_verified(cast: Cast, backup: Backup) -> None:  # noqa: F811
    """Backup G2; panel-security S62."""
    for verb in ("restore", "verify"):
        assert post(cast.stranger, f"backups/{backup.code}/{verb}/").status_code == 404
    answer = post(
        cast.stranger,
        "jobs/",
        {"operation": "RESTORE", "site": cast.foreign_site.pk, "payload": {"backup": backup.code}},
    )
    assert answer.status_code == 409
    assert not Job.objects.exists()


def test_the_header_idempotency_key_gives_the_same_job(cast: Cast) -> None:
    path = f"sites/{cast.site.pk}/backups/"
    first, again = (post(cast.owner, path, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json()["code"] == again.json()["code"]
    other = post(cast.owner, path, {"priority": "LOW"}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


BODIES: list[tuple[str, str | bytes, int]] = [
    ("unknown key", '{"command": "id"}', 400),
    ("smuggled fields", '{"status": "SUCCESS", "requested_by": "root"}', 400),
    ("no JSON", "{", 400),
    ("NaN", '{"priority": NaN}', 400),
    ("not UTF-8", b"\xff\xfe", 400),
    ("a list", "[]", 400),
    ("a number", "7", 400),
    ("10 MB", '{"reason": "' + "x" * 10_000_000 + '"}', 413),
    ("deep", "[" * 100_000, 400),
    ("wrong schedule type", '{"schedule_type": "HOURLY"}', 400),
    ("a NUL", '{"reason": "a\\u0000b"}', 400),
    ("no time zone known", '{"scheduled_at": "soon"}', 400),
]


@pytest.mark.parametrize(("body", "status"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_wrong_body_is_a_problem_leaves_no_job_and_is_in_the_trail(
    cast: Cast, body: str | bytes, status: int
) -> None:
    answer = post(cast.owner, f"sites/{cast.site.pk}/backups/", body)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]
    assert not Job.objects.exists()
    assert AuditEntry.objects.latest("sequence").action == Action.ACCESS_DENIED


def test_cancel_needs_a_reason_and_a_state(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    assert post(cast.owner, f"jobs/{job.code}/cancel/").status_code == 400
    assert post(cast.viewer, f"jobs/{job.code}/cancel/", {"reason": "x"}).status_code == 403
    assert post(cast.stranger, f"jobs/{job.code}/cancel/", {"reason": "x"}).status_code == 404
    answer = post(cast.owner, f"jobs/{job.code}/cancel/", {"reason": "not needed"})
    assert (answer.status_code, answer.json()["status"]) == (202, "CANCELLED")
    again = post(cast.owner, f"jobs/{job.code}/cancel/", {"reason": "not needed"})
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")


def test_a_session_without_csrf_token_changes_nothing(cast: Cast) -> None:
    """Panel-security S67."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.owner)
    answer = client.post(f"/api/v1/sites/{cast.site.pk}/backups/", "{}", content_type="application/json")
    assert answer.status_code == 403
    assert not Job.objects.exists()

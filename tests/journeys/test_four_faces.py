"""The three faces and the command make jobs by the one pipeline function: same trace, same refusal.

A test per face for an act that is allowed and for one that is forbidden.
"""

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from accounts.models import User
from audit.actions import Action
from audit.models import AuditEntry
from jobs import pipeline
from jobs.models import Job, JobEvent
from tests.cast import Cast

pytestmark = pytest.mark.django_db

Face = Callable[[Cast, User], str]


def _client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_panel(cast: Cast, user: User) -> str:
    """Press "Back up now"; give what the person is told."""
    answer = _client(user).post(reverse("panel:back_up", args=[cast.site.pk]), follow=True)
    return answer.content.decode()


def by_api(cast: Cast, user: User) -> str:
    """Post to the API."""
    path = reverse("api:back_up", args=[cast.site.pk])
    answer = _client(user).post(path, "{}", content_type="application/json")
    body = json.loads(answer.content)
    return str(body.get("detail") or body["code"])


def by_admin(cast: Cast, user: User) -> str:
    """Choose the site and the action on the list of sites."""
    user.user_permissions.add(Permission.objects.get(codename="view_site"))
    chosen = {"action": "back_up_now", "_selected_action": [cast.site.pk]}
    answer = _client(user).post(reverse("admin:sites_site_changelist"), chosen)
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def by_command(cast: Cast, user: User) -> str:
    """Run hosting-backup with the user's rights."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.suppress(SystemExit):
        call_command("hosting_backup", cast.site.domain, "--as", user.username, stdout=out, stderr=err)
    return out.getvalue() + err.getvalue()


# face, who may, who may only look
FACES: list[tuple[str, Face, str, str]] = [
    ("panel", by_panel, "owner", "viewer"),
    ("api", by_api, "owner", "viewer"),
    ("admin", by_admin, "staff", "onlooker"),
    ("command", by_command, "owner", "viewer"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note who calls the pipeline; it does what it always does."""
    seen: list[str] = []
    submit = pipeline.submit

    def noted(actor: Any, request: Any) -> Any:
        seen.append(actor.face)
        return submit(actor, request)

    monkeypatch.setattr(pipeline, "submit", noted)
    return seen


@pytest.mark.parametrize(("face", "act", "who", "looker"), FACES, ids=[row[0] for row in FACES])
def test_what_is_allowed_makes_the_same_job_with_the_same_trace(
    cast: Cast, calls: list[str], face: str, act: Face, who: str, looker: str
) -> None:
    user = getattr(cast, who)
    told = act(cast, user)
    job = Job.objects.get()
    event = JobEvent.objects.get()
    entry = AuditEntry.objects.get(action=Action.JOB_ENQUEUED)
    assert calls == [face]
    assert job.code in told
    assert (job.job_type, job.status, job.site, job.customer) == (
        "BACKUP",
        "QUEUED",
        cast.site,
        cast.customer,
    )
    assert (job.payload, job.requested_by) == ({"version": 1, "schedule_type": "MANUAL"}, user.username)
    assert (event.event_type, event.message) == ("CREATED", f"asked for by {user.username} ({face})")
    assert (entry.actor, entry.target, entry.tenant) == (
        f"{user.username} ({face})",
        job.code,
        cast.customer.code,
    )
    assert json.loads(entry.data) == {"face": face, "site": cast.site.pk, "type": "BACKUP"}


@pytest.mark.parametrize(("face", "act", "who", "looker"), FACES, ids=[row[0] for row in FACES])
def test_what_is_forbidden_is_refused_in_the_same_words_and_is_in_the_trail(
    cast: Cast, calls: list[str], face: str, act: Face, who: str, looker: str
) -> None:
    """Panel-security S57."""
    user = getattr(cast, looker)
    told = act(cast, user)
    sentence = (
        f"{user.username} may see {cast.site} but not ask for backup there: the right BACKUP is missing."
    )
    denial = AuditEntry.objects.get(action=Action.ACCESS_DENIED)
    assert calls == [face]
    assert sentence in told
    assert (denial.actor, denial.result, denial.reason) == (
        f"{user.username} ({face})",
        "forbidden",
        sentence,
    )
    assert denial.target == f"site:{cast.site.pk} of {cast.customer.code}"
    assert not Job.objects.exists()
    assert not JobEvent.objects.exists()

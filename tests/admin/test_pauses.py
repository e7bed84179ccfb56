"""Pauses in the admin: seen by who may look, made and ended by who may operate, with a reason."""

from typing import Any

import pytest
from django.test import Client

from accounts.actor import operator
from audit.actions import Action
from audit.models import AuditEntry
from jobs import pauses
from jobs.models import Pause, PauseScope
from jobs.pauses import Target
from tests.cast import Cast
from tests.jobs.samples import submitted
from tests.panel.samples import HOSTILE, visitor

pytestmark = pytest.mark.django_db
LIST = "/admin/jobs/pause/"


def _add(client: Client, **values: Any) -> Any:
    return client.post(f"{LIST}add/", {"reason": "disk is exchanged", **values}, follow=True)


@pytest.fixture
def paused(cast: Cast) -> Pause:
    return pauses.pause(operator("root"), Target(PauseScope.SITE, site=cast.site), "maintenance")


@pytest.mark.parametrize(
    ("scope", "field", "target"),
    [
        ("ALL", "", "all"),
        ("TYPE", "job_type", "type:BACKUP"),
        ("SERVER", "server", "server:{}"),
        ("SITE", "site", "site:{}"),
    ],
)
def test_work_is_paused_and_resumed(cast: Cast, staff: Client, scope: str, field: str, target: str) -> None:
    values = {"": "", "job_type": "BACKUP", "server": cast.server.pk, "site": cast.site.pk}
    more = {field: values[field]} if field else {}
    assert _add(staff, scope=scope, **more).redirect_chain == [(LIST, 302)]
    row = Pause.objects.get()
    assert (row.target, row.paused_by) == (target.format(values[field]), "staff (admin)")
    assert AuditEntry.objects.latest("sequence").action == Action.JOBS_PAUSED
    page = staff.post(f"{LIST}{row.pk}/delete/", {"reason": "done"}, follow=True).content.decode()
    assert "Resumed: " in page
    assert not Pause.objects.exists()
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.actor, entry.reason) == (Action.JOBS_RESUMED, "staff (admin)", "done")


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "TYPE"},
        {"scope": "SITE"},
        {"scope": "SERVER"},
        {"scope": "TYPE", "job_type": "NOPE"},
        {"scope": "ALL", "job_type": "BACKUP"},
        {"scope": "SITE", "site": 999_999},
        {"scope": ""},
        {"scope": "ALL", "reason": ""},
        {"scope": "ALL", "reason": "x" * 2000},
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(cast: Cast, staff: Client, wrong: dict[str, Any]) -> None:
    assert _add(staff, **wrong).context["errors"]
    assert not Pause.objects.exists()


def test_a_second_pause_of_the_same_is_refused_in_words(cast: Cast, staff: Client, paused: Pause) -> None:
    page = _add(staff, scope="SITE", site=cast.site.pk).content.decode()
    assert "Paused already" in page
    assert Pause.objects.count() == 1


def test_the_list_says_who_since_when_and_why(cast: Cast, staff: Client, paused: Pause) -> None:
    page = staff.get(LIST).content.decode()
    for word in ("a site shop.test", "root (command)", "maintenance", f"{LIST}{paused.pk}/delete/"):
        assert word in page, word
    assert "root (command)" in staff.get(f"{LIST}{paused.pk}/change/").content.decode()


def test_resuming_needs_a_reason_and_is_no_deletion_of_the_row_alone(
    cast: Cast, staff: Client, paused: Pause
) -> None:
    job = submitted(cast.site, "BACKUP")
    assert job.readiness == "PAUSED"
    address = f"{LIST}{paused.pk}/delete/"
    assert "maintenance" in staff.get(address).content.decode()
    for reason in ("", " ", "x" * 2000, "a\x07b"):
        staff.post(address, {"reason": reason, "post": "yes"})
        assert Pause.objects.exists(), reason
    staff.post(address, {"reason": "done"})
    job.refresh_from_db()
    assert job.readiness == "READY"
    assert staff.post(address, {"reason": "again"}).status_code == 404


def test_a_pause_is_never_changed_nor_deleted_in_bulk(cast: Cast, staff: Client, paused: Pause) -> None:
    assert staff.post(f"{LIST}{paused.pk}/change/", {"reason": "other"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(paused.pk)], "post": "yes"}
    staff.post(LIST, chosen)
    assert Pause.objects.get().reason == "maintenance"


def test_who_may_not_operate_looks_only(cast: Cast, onlooker: Client, paused: Pause) -> None:
    assert "maintenance" in onlooker.get(LIST).content.decode()
    assert _add(onlooker, scope="ALL").status_code == 403
    assert onlooker.post(f"{LIST}{paused.pk}/delete/", {"reason": "x"}).status_code == 403
    for user in (None, cast.owner):
        assert visitor(user).post(f"{LIST}{paused.pk}/delete/", {"reason": "x"}).status_code == 302
    assert Pause.objects.count() == 1


def test_hostile_text_stays_text(cast: Cast, staff: Client, paused: Pause) -> None:
    Pause.objects.update(reason=HOSTILE, paused_by=HOSTILE)
    for path in (LIST, f"{LIST}{paused.pk}/delete/", f"{LIST}{paused.pk}/change/"):
        page = staff.get(path).content.decode()
        assert "<img src=x" not in page, path
        assert "&lt;img" in page, path

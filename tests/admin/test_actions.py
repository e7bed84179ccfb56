"""Actions in the admin: each asks the pipeline, row by row, and says what came of it."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from audit.models import AuditEntry
from backups.models import Integrity
from jobs.models import Job
from sites.models import SiteState
from tests.cast import Cast
from tests.panel.samples import make_backup

pytestmark = pytest.mark.django_db

SITES = "admin:sites_site_changelist"
BACKUPS = "admin:backups_backup_changelist"


def _act(client: Client, name: str, action: str, *rows: Any) -> str:
    chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    return client.post(reverse(name), chosen, follow=True).content.decode()


def test_sites_are_backed_up(cast: Cast, staff: Client) -> None:
    page = _act(staff, SITES, "back_up_now", cast.site, cast.foreign_site)
    jobs = Job.objects.filter(job_type="BACKUP")
    assert {job.site for job in jobs} == {cast.site, cast.foreign_site}
    assert all(f"{job.code} is queued." in page for job in jobs)
    assert AuditEntry.objects.filter(action="job.enqueued", actor="staff (admin)").count() == 2


def test_a_site_is_provisioned(cast: Cast, staff: Client) -> None:
    _act(staff, SITES, "provision", cast.site)
    assert Job.objects.get().job_type == "PROVISION"


def test_one_refusal_does_not_keep_the_others_back(cast: Cast, staff: Client) -> None:
    cast.site.state = SiteState.PROVISIONING
    cast.site.save()
    page = _act(staff, SITES, "back_up_now", cast.site, cast.foreign_site)
    assert "only a site that is active can be backed up" in page
    assert Job.objects.get().site == cast.foreign_site


def test_backups_are_verified(cast: Cast, staff: Client) -> None:
    good, failed = make_backup(cast.site), make_backup(cast.site, 2, Integrity.FAILED)
    page = _act(staff, BACKUPS, "verify", good, failed)
    assert Job.objects.get().payload["backup"] == good.code
    assert "there is nothing to verify" in page


@pytest.mark.parametrize(
    ("name", "action"), [(SITES, "back_up_now"), (SITES, "provision"), (BACKUPS, "verify")]
)
def test_who_may_not_operate_is_refused_and_recorded(
    cast: Cast, onlooker: Client, name: str, action: str
) -> None:
    row = cast.site if name == SITES else make_backup(cast.site)
    assert "the right" in _act(onlooker, name, action, row)
    assert not Job.objects.exists()
    assert AuditEntry.objects.filter(action="access.denied", actor="onlooker (admin)").count() == 1

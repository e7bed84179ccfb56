"""Backups: the list, the confirmation of a restore, restoring, verifying."""

import re

import pytest

from accounts.models import User
from backups.models import Backup, Integrity
from jobs.models import Job, Plan
from tests.cast import Cast
from tests.panel.samples import HOSTILE, make_backup, queries_of, visitor

pytestmark = pytest.mark.django_db


def _page(user: User, path: str) -> str:
    answer = visitor(user).get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_list_shows_all_sites_and_filters(cast: Cast) -> None:
    good = make_backup(cast.site)
    bad = make_backup(cast.read_only_site, 2, Integrity.CORRUPTED, error_message=HOSTILE)
    page = _page(cast.owner, "/backups/")
    assert good.code in page
    assert bad.code in page
    assert "<img" not in page
    page = _page(cast.owner, "/backups/?integrity=CORRUPTED")
    assert good.code not in page
    assert bad.code in page
    assert bad.code not in _page(cast.owner, f"/backups/?site={cast.site.pk}")


def test_the_list_goes_by_pages_at_a_constant_price(cast: Cast) -> None:
    client = visitor(cast.owner)
    make_backup(cast.site)
    few = queries_of(client, "/backups/")
    for number in range(2, 30):
        make_backup(cast.site, number)
    assert queries_of(client, "/backups/") == few <= 6
    page = client.get("/backups/").context["page"]
    older = client.get("/backups/", {"before": page.next_before}).context["page"]
    assert (len(page.rows), len(older.rows), older.next_before) == (25, 4, None)


def test_a_restore_is_confirmed_on_a_page_that_says_what_it_does(cast: Cast, backup: Backup) -> None:
    page = _page(cast.owner, f"/backups/{backup.code}/restore/")
    for word in ("PRE_RESTORE", f"Unpack {backup.code}", "go back to the safety copy", cast.site.domain):
        assert word in page, word
    assert not Job.objects.exists()
    assert not Plan.objects.exists()


def test_a_confirmed_restore_makes_plan_and_job_once(cast: Cast, backup: Backup) -> None:
    client, path = visitor(cast.owner), f"/backups/{backup.code}/restore/"
    (key,) = re.findall(r'name="key" value="([0-9a-f]{32})"', client.get(path).content.decode())
    for _ in range(2):
        answer = client.post(path, {"key": key, "reason": "the shop is broken"})
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.code}/"
    assert (job.job_type, job.payload["backup"], job.reason) == ("RESTORE", backup.code, "the shop is broken")
    assert job.plan is not None
    assert job.plan.approved_by == "owner"


def test_a_restore_by_who_may_not_is_refused_on_both_pages(cast: Cast, backup: Backup) -> None:
    client, path = visitor(cast.operator_member), f"/backups/{backup.code}/restore/"
    assert client.get(path).status_code == 403
    assert client.post(path).status_code == 403
    assert not Job.objects.exists()


def test_a_read_only_site_is_not_restored(cast: Cast) -> None:
    backup = make_backup(cast.read_only_site)
    answer = visitor(cast.owner).post(f"/backups/{backup.code}/restore/")
    assert answer.status_code == 403
    assert "preset READ_ONLY" in answer.content.decode()


def test_only_a_verified_backup_is_restored(cast: Cast) -> None:
    backup = make_backup(cast.site, integrity=Integrity.PARTIAL)
    client = visitor(cast.owner)
    for ask in (client.get, client.post):
        answer = ask(f"/backups/{backup.code}/restore/", follow=True)
        assert answer.redirect_chain == [(f"/sites/{cast.site.pk}/", 302)]
        assert "only a verified one is restored" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_backup_is_verified_on_demand(cast: Cast, backup: Backup) -> None:
    answer = visitor(cast.operator_member).post(f"/backups/{backup.code}/verify/", {"key": "k"})
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.code}/"
    assert (job.job_type, job.payload["backup"]) == ("VERIFY", backup.code)


def test_two_backups_of_one_page_are_verified_by_two_jobs(cast: Cast) -> None:
    make_backup(cast.site, 1)
    make_backup(cast.site, 2)
    client = visitor(cast.owner)
    page = client.get(f"/sites/{cast.site.pk}/").content.decode()
    forms = re.findall(r'action="(/backups/[^"]+/verify/)".*?name="key" value="([^"]+)"', page, re.DOTALL)
    for path, key in forms:
        client.post(path, {"key": key})
    assert Job.objects.filter(job_type="VERIFY").count() == len(forms) == 2


@pytest.mark.parametrize("code", ["BK-1", "x", "BK-20260813-170001; id", "..", "BK-99999999-999999"])
def test_there_are_no_odd_backups(cast: Cast, code: str) -> None:
    assert visitor(cast.owner).post(f"/backups/{code}/verify/").status_code == 404

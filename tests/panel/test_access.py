"""Who reaches which page: the look-up is the permission (rule 16)."""

import pytest
from django.db.models import Model
from django.test import Client

from accounts.models import User
from audit.models import AuditEntry
from backups.models import Backup
from jobs.models import Job, JobEvent, Plan
from sites.models import Site
from tests.cast import Cast
from tests.panel.samples import visitor

pytestmark = pytest.mark.django_db

LISTS = ("/", "/jobs/", "/backups/")


def _details(site: Site, job: Job, backup: Backup) -> list[str]:
    return [f"/sites/{site.pk}/", f"/jobs/{job.code}/", f"/jobs/{job.code}/progress/"]


def _changes(site: Site, job: Job, backup: Backup) -> list[str]:
    return [
        f"/sites/{site.pk}/back-up/",
        f"/jobs/{job.code}/cancel/",
        f"/jobs/{job.code}/retry/",
        f"/backups/{backup.code}/restore/",
        f"/backups/{backup.code}/verify/",
    ]


def test_nobody_is_sent_to_the_login_and_comes_back(cast: Cast, job: Job, backup: Backup) -> None:
    pages = [*LISTS, *_details(cast.site, job, backup), f"/backups/{backup.code}/restore/"]
    for path in pages:
        answer = Client().get(path)
        assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={path}"), path


def test_nobody_changes_nothing(cast: Cast, job: Job, backup: Backup) -> None:
    for path in _changes(cast.site, job, backup):
        answer = Client().post(path, {"reason": "because"})
        assert (answer.status_code, answer["Location"]) == (302, "/login/"), path
    assert Job.objects.get().status == "QUEUED"


def test_a_fragment_asked_for_by_nobody_makes_the_page_load_again(job: Job) -> None:
    answer = Client().get(f"/jobs/{job.code}/progress/", headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"
    assert not answer.content


def test_members_and_staff_see_every_page(cast: Cast, job: Job, backup: Backup) -> None:
    for user in (cast.owner, cast.operator_member, cast.viewer, cast.staff, cast.onlooker):
        for path in [*LISTS, *_details(cast.site, job, backup)]:
            assert visitor(user).get(path).status_code == 200, (user, path)


def test_a_stranger_finds_nothing(cast: Cast, job: Job, backup: Backup) -> None:
    client = visitor(cast.stranger)
    for path in [*_details(cast.site, job, backup), f"/backups/{backup.code}/restore/"]:
        assert client.get(path).status_code == 404, path
    for path in _changes(cast.site, job, backup):
        assert client.post(path, {"reason": "because"}).status_code == 404, path
    assert Job.objects.get().status == "QUEUED"


def test_lists_of_a_stranger_say_nothing_of_others(cast: Cast, job: Job, backup: Backup) -> None:
    for path in LISTS:
        page = (
            visitor(cast.stranger).get(path, {"site": cast.site.pk} if path != "/" else {}).content.decode()
        )
        for word in (cast.site.domain, job.code, backup.code):
            assert word not in page, (path, word)


def test_a_viewer_may_look_and_not_touch(cast: Cast, job: Job, backup: Backup) -> None:
    client = visitor(cast.viewer)
    for path in _changes(cast.site, job, backup):
        answer = client.post(path, {"reason": "because"})
        assert answer.status_code == 403, path
        assert "the right" in answer.content.decode(), path
    assert list(Job.objects.values_list("status", flat=True)) == ["QUEUED"]


def test_a_refusal_is_in_the_trail(cast: Cast) -> None:
    visitor(cast.viewer).post(f"/sites/{cast.site.pk}/back-up/")
    entry = AuditEntry.objects.filter(action="access.denied").get()
    assert (entry.actor, entry.target) == ("viewer (panel)", f"site:{cast.site.pk} of ours")


def test_staff_without_the_right_to_operate_is_refused(cast: Cast, job: Job, backup: Backup) -> None:
    for path in _changes(cast.site, job, backup):
        assert visitor(cast.onlooker).post(path, {"reason": "because"}).status_code == 403, path


def test_a_member_removed_meanwhile_sees_nothing(cast: Cast) -> None:
    client = visitor(cast.viewer)
    cast.viewer.memberships.all().delete()
    assert client.get(f"/sites/{cast.site.pk}/").status_code == 404


def test_changes_want_the_token_of_a_form(cast: Cast, job: Job, backup: Backup) -> None:
    client = visitor(cast.owner, enforce_csrf_checks=True)
    for path in [*_changes(cast.site, job, backup), "/logout/"]:
        assert client.post(path, {"reason": "because"}).status_code == 403, path
    assert Client(enforce_csrf_checks=True).post("/login/", {"username": "owner"}).status_code == 403
    assert list(Job.objects.values_list("status", flat=True)) == ["QUEUED"]
    assert "_auth_user_id" in client.session


def _rows() -> dict[str, list[object]]:
    models: tuple[type[Model], ...] = (Site, Job, JobEvent, Backup, Plan, AuditEntry, User)
    return {model.__name__: list(model.objects.values()) for model in models}  # type: ignore[attr-defined]


def test_looking_changes_nothing(cast: Cast, job: Job, backup: Backup) -> None:
    client = visitor(cast.owner)
    before = _rows()
    paths = [
        *LISTS,
        *_details(cast.site, job, backup),
        *_changes(cast.site, job, backup),
        "/logout/",
        "/login/",
    ]
    for path in paths * 2:
        assert client.get(path).status_code in (200, 302, 405), path
    assert _rows() == before


def test_pages_stay_in_no_cache_and_run_no_foreign_script(cast: Cast) -> None:
    answer = visitor(cast.owner).get(f"/sites/{cast.site.pk}/")
    assert "no-store" in answer["Cache-Control"]
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]

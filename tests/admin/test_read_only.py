"""Lists and details in the admin: fast, linked, escaped, and not to be written where no person should."""

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from accounts.models import Customer, HostingPlan, User
from accounts.staff_pages import CappedPaginator
from audit.clock import database_now
from backups.models import Backup
from jobs import events
from jobs.events import Line
from jobs.models import (
    EventType,
    Job,
    JobDependency,
    JobEvent,
    JobPolicy,
    Plan,
    SiteGate,
    UsedKey,
    Worker,
)
from provisioning.models import Resource
from sites.models import Server, Site
from tests.cast import Cast
from tests.jobs.samples import worker
from tests.panel.samples import HOSTILE, make_backup, make_job, queries_of

pytestmark = pytest.mark.django_db

READ_ONLY = (Job, JobEvent, Plan, Worker, Backup, Resource)
NEVER_DELETED = (*READ_ONLY, JobPolicy, Site, Server, Customer, HostingPlan, User)


def _list(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def _page(row: Model, act: str = "change") -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{act}", args=[row.pk])


def _samples(cast: Cast) -> dict[type[Model], Model]:
    job = make_job(cast.site)
    stamp = database_now()
    plan = Plan.objects.create(
        kind="RESTORE", site=cast.site, content={}, created_by="owner", created_at=stamp, expires_at=stamp
    )
    rows = [
        job,
        job.events.get(),
        plan,
        worker(),
        make_backup(cast.site, job=job),
        Resource.objects.create(site=cast.site, kind="DATABASE", engine="mariadb", name="shop"),
        JobPolicy.objects.create(job_type="BACKUP"),
        *(cast.site, cast.server, cast.customer, cast.customer.plan, cast.owner),
        cast.owner.memberships.get(),
    ]
    return {type(row): row for row in rows}


def test_every_list_and_page_of_ours_can_be_seen(cast: Cast, staff: Client) -> None:
    for model, row in _samples(cast).items():
        for path in (_list(model), _page(row), f"{_list(model)}?q=shop.test"):
            assert staff.get(path).status_code == 200, path


@pytest.mark.parametrize("model", READ_ONLY)
def test_what_is_read_only_is_neither_added_nor_changed(
    cast: Cast, staff: Client, model: type[Model]
) -> None:
    row = _samples(cast)[model]
    before = list(model._default_manager.values())
    add = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
    assert staff.post(add, {"status": "SUCCESS"}).status_code == 403
    assert staff.post(_page(row), {"status": "SUCCESS", "integrity": "VERIFIED"}).status_code == 403
    assert list(model._default_manager.values()) == before


@pytest.mark.parametrize("model", NEVER_DELETED)
def test_nothing_that_the_trail_names_is_deleted(cast: Cast, staff: Client, model: type[Model]) -> None:
    row = _samples(cast)[model]
    assert staff.post(_page(row, "delete"), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    staff.post(_list(model), chosen)
    assert model._default_manager.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", NEVER_DELETED)
def test_no_list_counts_a_large_table(model: type[Model]) -> None:
    page = admin.site.get_model_admin(model)
    assert page.show_full_result_count is False
    assert issubclass(page.paginator, CappedPaginator)


def test_site_jobs_and_backups_are_linked(cast: Cast, staff: Client) -> None:
    rows = _samples(cast)
    job, backup = rows[Job], rows[Backup]
    page = staff.get(_page(cast.site)).content.decode()
    for path in (
        f"{_list(Job)}?site__id__exact={cast.site.pk}",
        f"{_list(Backup)}?site__id__exact={cast.site.pk}",
    ):
        assert path in page
        assert staff.get(path).status_code == 200
    assert _page(cast.site) in staff.get(_page(job)).content.decode()
    assert _page(backup) in staff.get(_page(job)).content.decode()
    assert _page(job) in staff.get(_page(backup)).content.decode()
    assert _page(cast.site) in staff.get(_list(Backup)).content.decode()


def test_a_jobs_page_shows_its_history_and_why_it_waits(cast: Cast, staff: Client) -> None:
    job = make_job(cast.site)
    for path in (_list(Job), _page(job)):
        assert "no live worker" in staff.get(path).content.decode()
    page = staff.get(_page(job)).content.decode()
    assert "asked for by root (command)" in page
    assert job.claim_token == "" or job.claim_token not in page


def test_the_list_of_jobs_costs_the_same_however_long(cast: Cast, staff: Client) -> None:
    # One that is ready and one behind it: the reasons of both kinds are looked up.
    for _ in range(2):
        make_job(cast.site)
    few = queries_of(staff, _list(Job))
    for _ in range(30):
        make_job(cast.site)
    assert queries_of(staff, _list(Job)) == few


@pytest.mark.parametrize("term", ["JOB-{pk}", "job-{pk:06d}", "{uuid}", "shop.test"])
def test_jobs_are_found_by_whole_terms(cast: Cast, staff: Client, term: str) -> None:
    job, other = make_job(cast.site), make_job(cast.foreign_site)
    found = staff.get(_list(Job), {"q": term.format(pk=job.pk, uuid=job.uuid)}).context["cl"].result_list
    assert list(found) == [job]
    assert other not in found


@pytest.mark.parametrize("term", ["JOB", "shop", "a\0b", "'", "%", "JOB-99999999999999999999"])
def test_parts_of_terms_find_nothing(cast: Cast, staff: Client, term: str) -> None:
    make_job(cast.site)
    answer = staff.get(_list(Job), {"q": term})
    assert answer.status_code == 200
    assert "\0" in term or not answer.context["cl"].result_list


def test_hostile_text_stays_text(cast: Cast, staff: Client) -> None:
    cast.site.display_domain = HOSTILE
    cast.site.save()
    cast.customer.name = HOSTILE
    cast.customer.save()
    job = make_job(
        cast.site, error_message=HOSTILE, requested_by=HOSTILE, result={"x": HOSTILE}, reason=HOSTILE
    )
    events.append(job, [Line(EventType.PROGRESS, HOSTILE)], database_now())
    backup = make_backup(cast.site, job=job, error_message=HOSTILE, databases=[HOSTILE], skipped=[HOSTILE])
    pages = [
        _list(Job),
        _page(job),
        _list(JobEvent),
        _list(Backup),
        _page(backup),
        _list(Site),
        _page(cast.site),
    ]
    for path in [*pages, _list(Customer), _page(cast.customer)]:
        page = staff.get(path).content.decode()
        assert "<img src=x" not in page, path
        assert "&lt;img" in page, path


def test_customers_people_do_not_come_in(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.owner, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(_list(Job)).status_code == 302
    assert "/admin/login/" in client.get(_list(Job))["Location"]


def test_what_only_the_engine_keeps_has_no_page() -> None:
    for model in (JobDependency, SiteGate, UsedKey):
        assert not admin.site.is_registered(model)

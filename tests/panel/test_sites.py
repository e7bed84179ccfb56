"""My sites, one site, and "Back up now"."""

import re

import pytest

from accounts.models import Membership, User
from accounts.roles import Role
from backups.models import Fate, Integrity
from jobs.models import Job
from sites.models import SiteState
from tests.builders import make_site
from tests.cast import Cast
from tests.panel.samples import make_backup, make_job, queries_of, visitor

pytestmark = pytest.mark.django_db


def _page(user: User, path: str) -> str:
    answer = visitor(user).get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_home_shows_the_last_verified_backup_and_running_work(cast: Cast) -> None:
    make_backup(cast.site, 1, Integrity.FAILED)
    make_backup(cast.site, 2, fate=Fate.DELETED)
    good = make_backup(cast.site, 3)
    make_backup(cast.site, 4)
    job = make_job(cast.site)
    answer = visitor(cast.owner).get("/")
    lines = {line.site.pk: line for line in answer.context["lines"]}
    assert lines[cast.site.pk].last_verified == good
    assert lines[cast.site.pk].work == [job]
    assert lines[cast.read_only_site.pk].last_verified is None
    assert f'href="/jobs/{job.code}/"' in answer.content.decode()


def test_home_asks_the_same_number_of_questions_however_many_sites(cast: Cast) -> None:
    client = visitor(cast.owner)
    make_backup(cast.site)
    make_job(cast.site)
    few = queries_of(client, "/")
    for number in range(20):
        site = make_site(cast, f"site{number}.test")
        make_backup(site, number + 2)
        make_job(site)
    assert queries_of(client, "/") == few <= 9


def test_home_goes_by_pages_and_never_counts(cast: Cast, django_assert_max_num_queries: object) -> None:
    for number in range(28):
        make_site(cast, f"site{number}.test")
    client = visitor(cast.owner)
    first = client.get("/").context["page"]
    second = client.get("/", {"before": first.next_before}).context["page"]
    keys = [site.pk for site in [*first.rows, *second.rows]]
    assert keys == sorted(set(keys), reverse=True)
    assert (len(first.rows), len(second.rows), second.next_before) == (25, 5, None)


@pytest.mark.parametrize("before", ["x", "-1", "1.5", "9" * 40, "²", "1 OR 1=1", "<b>"])
def test_an_odd_page_is_refused_and_not_repeated(cast: Cast, before: str) -> None:
    for path in ("/", "/jobs/", "/backups/"):
        answer = visitor(cast.owner).get(path, {"before": before})
        assert answer.status_code == 400
        assert "<b>" not in answer.content.decode()


def test_sites_are_found_by_the_beginning_of_their_domain(cast: Cast) -> None:
    page = _page(cast.owner, "/?q=SHO")
    assert cast.site.domain in page
    assert cast.read_only_site.domain not in page
    assert "No site here" in _page(cast.owner, "/?q=foreign")


def test_a_search_with_control_characters_is_refused(cast: Cast) -> None:
    assert visitor(cast.owner).get("/", {"q": "sh\0op"}).status_code == 400


def test_only_who_belongs_to_several_customers_is_told_whose_a_site_is(cast: Cast) -> None:
    assert cast.customer.name not in _page(cast.owner, "/")
    Membership.objects.create(user=cast.owner, customer=cast.other_customer, role=Role.VIEWER)
    for path in ("/", f"/sites/{cast.site.pk}/"):
        assert cast.customer.name in _page(cast.owner, path)


def test_a_site_shows_its_backups_and_jobs(cast: Cast) -> None:
    backup, job = make_backup(cast.site), make_job(cast.site)
    other = make_backup(cast.read_only_site, 2)
    page = _page(cast.viewer, f"/sites/{cast.site.pk}/")
    for word in (
        cast.site.domain,
        backup.code,
        "verified",
        "1.0",
        job.code,
        "no live worker",
        "active",
        "web1",
    ):
        assert word in page, word
    assert other.code not in page


def test_a_site_asks_the_same_number_of_questions_however_much_it_has(cast: Cast) -> None:
    client, path = visitor(cast.owner), f"/sites/{cast.site.pk}/"
    make_backup(cast.site)
    # One that is ready and one behind it: the reasons of both kinds are looked up.
    for _ in range(2):
        make_job(cast.site)
    few = queries_of(client, path)
    for number in range(15):
        make_backup(cast.site, number + 2, job=make_job(cast.site))
    assert queries_of(client, path) == few <= 18


def test_buttons_are_for_those_who_may(cast: Cast) -> None:
    make_backup(cast.site)
    path = f"/sites/{cast.site.pk}/"
    words = ("Back up now", ">Verify<", ">Restore<")
    shown = {
        user: [word in _page(user, path) for word in words] for user in (cast.owner, cast.operator_member)
    }
    assert shown == {cast.owner: [True, True, True], cast.operator_member: [True, True, False]}
    assert not any(word in _page(cast.viewer, path) for word in words)


def test_a_read_only_site_offers_a_backup_and_no_restore(cast: Cast) -> None:
    make_backup(cast.read_only_site)
    page = _page(cast.owner, f"/sites/{cast.read_only_site.pk}/")
    assert "Back up now" in page
    assert ">Restore<" not in page
    assert "read-only" in page


def test_a_site_that_is_not_there_yet_offers_nothing(cast: Cast) -> None:
    cast.site.state = SiteState.PROVISIONING
    cast.site.save()
    assert "Back up now" not in _page(cast.owner, f"/sites/{cast.site.pk}/")


def test_back_up_now_makes_a_job_and_goes_to_it(cast: Cast) -> None:
    client = visitor(cast.owner)
    answer = client.post(f"/sites/{cast.site.pk}/back-up/", {"key": "one"}, follow=True)
    job = Job.objects.get()
    assert answer.redirect_chain == [(f"/jobs/{job.code}/", 302)]
    assert (job.job_type, job.site, job.requested_by) == ("BACKUP", cast.site, "owner")
    assert f"You asked for {job.code}." in answer.content.decode()


def test_a_double_click_makes_one_job_and_a_new_page_another(cast: Cast) -> None:
    client, path = visitor(cast.owner), f"/sites/{cast.site.pk}/"
    for jobs in (1, 2):
        page = client.get(path).content.decode()
        (key,) = re.findall(r'name="key" value="([0-9a-f]{32})"', page)
        for _ in range(2):
            answer = client.post(f"{path}back-up/", {"key": key})
        assert Job.objects.count() == jobs
    assert answer["Location"] == f"/jobs/{Job.objects.latest('pk').code}/"


def test_a_refusal_of_the_moment_is_said_on_the_sites_page(cast: Cast) -> None:
    cast.site.state = SiteState.PROVISIONING
    cast.site.save()
    answer = visitor(cast.owner).post(f"/sites/{cast.site.pk}/back-up/", follow=True)
    assert answer.redirect_chain == [(f"/sites/{cast.site.pk}/", 302)]
    assert "only a site that is active can be backed up" in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("key", ["x" * 500, "a\0b", "a\nb"])
def test_an_odd_key_is_refused(cast: Cast, key: str) -> None:
    answer = visitor(cast.owner).post(f"/sites/{cast.site.pk}/back-up/", {"key": key}, follow=True)
    assert "The idempotency key" in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("path", ["/sites/0/", "/sites/99999999999999999999999/", "/sites/-1/", "/sites/x/"])
def test_there_are_no_odd_sites(cast: Cast, path: str) -> None:
    assert visitor(cast.staff).get(path).status_code == 404

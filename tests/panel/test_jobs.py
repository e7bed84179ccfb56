"""Jobs: the list, one job's live progress, calling one off."""

import pytest

from accounts.models import User
from audit.clock import database_now
from jobs import events
from jobs.events import Line
from jobs.models import EventType, Job, Level
from jobs.states import ENDED, Status
from tests.cast import Cast
from tests.jobs.samples import moved
from tests.panel.samples import (
    HOSTILE,
    WAYS,
    chain_of,
    job_in,
    make_backup,
    make_job,
    queries_of,
    visitor,
)

pytestmark = pytest.mark.django_db

POLLING = "hx-trigger"


def _page(user: User, path: str, **headers: str) -> str:
    answer = visitor(user).get(path, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_includes_the_fragment_that_it_polls(cast: Cast, job: Job) -> None:
    page = _page(cast.owner, f"/jobs/{job.code}/")
    fragment = _page(cast.owner, f"/jobs/{job.code}/progress/")
    for text in (page, fragment):
        assert f'hx-get="/jobs/{job.code}/progress/"' in text
        assert POLLING in text
        assert "no live worker" in text
    assert "<html" in page
    assert "<html" not in fragment


def test_progress_and_history_are_shown(cast: Cast, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(
        status=Status.RUNNING, progress_percent=42, progress_step="archiving"
    )
    events.append(job, [Line(EventType.CHECKPOINT, "dumped shop", Level.WARNING)], database_now())
    fragment = _page(cast.viewer, f"/jobs/{job.code}/progress/")
    for word in ("42 %", "archiving", "dumped shop", "Checkpoint", "asked for by root (command)"):
        assert word in fragment, word


@pytest.mark.parametrize("status", ENDED)
def test_polling_stops_with_the_job(cast: Cast, status: Status) -> None:
    job = make_job(cast.site, status=status)
    for path in (f"/jobs/{job.code}/", f"/jobs/{job.code}/progress/"):
        assert POLLING not in _page(cast.owner, path)


def test_an_ended_job_takes_its_cancel_form_away_and_says_so(cast: Cast) -> None:
    job = make_job(cast.site, status=Status.SUCCESS)
    fragment = _page(cast.owner, f"/jobs/{job.code}/progress/")
    assert '<div id="job-decisions" hx-swap-oob="innerHTML">' in fragment
    assert "Cancel this job" not in fragment
    assert f"{job.code} has ended: success." in fragment


def test_a_result_is_shown_without_places_on_the_server(cast: Cast) -> None:
    result = {
        "backup": "BK-20260813-170001",
        "path": "/var/lib/cresignsys/backups/7",
        "size_bytes": 3 * 1024 * 1024,
        "files": 2592,
        "databases": [{"engine": "sqlite", "name": "data/shop.sqlite3"}],
    }
    job = make_job(cast.site, status=Status.SUCCESS, result=result)
    page = _page(cast.owner, f"/jobs/{job.code}/")
    for word in ("BK-20260813-170001", "3.0", "2592", "data/shop.sqlite3"):
        assert word in page, word
    assert "/var/lib" not in page


def test_hostile_text_stays_text(cast: Cast) -> None:
    job = make_job(
        cast.site,
        status=Status.FAILED,
        error_message=HOSTILE,
        progress_step=HOSTILE,
        reason=HOSTILE,
        requested_by=HOSTILE,
        result={"backup": HOSTILE, "databases": [{"name": HOSTILE}]},
    )
    cast.site.display_domain = HOSTILE
    cast.site.save()
    events.append(job, [Line(EventType.FAILED, HOSTILE, Level.ERROR)], database_now())
    for path in (
        "/",
        "/jobs/",
        f"/jobs/{job.code}/",
        f"/jobs/{job.code}/progress/",
        f"/sites/{cast.site.pk}/",
    ):
        page = _page(cast.owner, path)
        assert "<img" not in page, path
        assert "&lt;img" in page, path


def test_a_long_history_is_cut_and_costs_the_same(cast: Cast, job: Job) -> None:
    client, path = visitor(cast.owner), f"/jobs/{job.code}/"
    few = queries_of(client, path)
    events.append(job, [Line(EventType.PROGRESS, f"line {n}") for n in range(300)], database_now())
    assert queries_of(client, path) == few <= 18
    page = client.get(path).content.decode()
    assert "line 299" in page
    assert "line 10<" not in page
    assert "Earlier lines are not shown" in page


def test_a_job_of_a_type_that_is_gone_is_still_shown(cast: Cast) -> None:
    job = make_job(cast.site, job_type="FORMER")
    assert "FORMER" in _page(cast.owner, f"/jobs/{job.code}/")
    assert "FORMER" in _page(cast.owner, "/jobs/")


def test_the_list_filters_by_status_and_site(cast: Cast) -> None:
    queued, failed = make_job(cast.site), make_job(cast.read_only_site, status=Status.FAILED)
    page = _page(cast.owner, "/jobs/?status=FAILED")
    assert failed.code in page
    assert queued.code not in page
    page = _page(cast.owner, f"/jobs/?site={cast.site.pk}")
    assert queued.code in page
    assert failed.code not in page


def test_an_unknown_status_is_refused(cast: Cast) -> None:
    assert visitor(cast.owner).get("/jobs/", {"status": "<b>"}).status_code == 400


def test_the_list_goes_by_pages_and_keeps_its_filter(cast: Cast) -> None:
    for _ in range(27):
        make_job(cast.site)
    client = visitor(cast.owner)
    answer = client.get("/jobs/", {"status": "QUEUED"})
    before = answer.context["page"].next_before
    assert f"?status=QUEUED&amp;before={before}" in answer.content.decode()
    older = client.get("/jobs/", {"status": "QUEUED", "before": before})
    assert len(older.context["page"].rows) == 2


def test_the_list_asks_the_same_number_of_questions_however_long(cast: Cast) -> None:
    client = visitor(cast.owner)
    # One that is ready and one behind it: the reasons of both kinds are looked up.
    for _ in range(2):
        make_job(cast.site)
    few = queries_of(client, "/jobs/")
    for _ in range(30):
        make_job(cast.site)
    assert queries_of(client, "/jobs/") == few <= 14


def test_a_queued_job_is_called_off_with_its_reason(cast: Cast, job: Job) -> None:
    client = visitor(cast.owner)
    answer = client.post(f"/jobs/{job.code}/cancel/", {"reason": "not today"}, follow=True)
    job.refresh_from_db()
    assert job.status == Status.CANCELLED
    assert answer.redirect_chain == [(f"/jobs/{job.code}/", 302)]
    assert "not today" in answer.content.decode()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2000, "a\x07b"])
def test_without_a_good_reason_nothing_is_called_off(cast: Cast, job: Job, reason: str) -> None:
    answer = visitor(cast.owner).post(f"/jobs/{job.code}/cancel/", {"reason": reason}, follow=True)
    job.refresh_from_db()
    assert job.status == Status.QUEUED
    assert "message-error" in answer.content.decode()


def test_an_ended_job_is_not_called_off(cast: Cast) -> None:
    job = make_job(cast.site, status=Status.SUCCESS)
    answer = visitor(cast.owner).post(f"/jobs/{job.code}/cancel/", {"reason": "late"}, follow=True)
    assert "only a queued or running job can be cancelled" in answer.content.decode()


def test_the_cancel_form_is_for_those_who_may(cast: Cast, job: Job) -> None:
    for user, shown in ((cast.owner, True), (cast.operator_member, True), (cast.viewer, False)):
        assert ("Cancel this job" in _page(user, f"/jobs/{job.code}/")) is shown


@pytest.mark.parametrize("code", ["JOB-0", "x", "JOB-99999999999999999999", "JOB-000001x", "1", "%00"])
def test_there_are_no_odd_jobs(cast: Cast, job: Job, code: str) -> None:
    assert visitor(cast.owner).get(f"/jobs/{code}/").status_code == 404


def test_a_failed_job_is_done_again_for_a_reason(cast: Cast) -> None:
    job = job_in(Status.FAILED, cast.site)
    client, path = visitor(cast.owner), f"/jobs/{job.code}/"
    assert "Retry this job" in client.get(path).content.decode()
    client.post(f"{path}retry/", {"reason": " "})
    assert Job.objects.get().status == Status.FAILED
    answer = client.post(f"{path}retry/", {"reason": "the disk is free again"}, follow=True)
    page = answer.content.decode()
    assert answer.redirect_chain == [(path, 302)]
    assert f"You asked for {job.code} again." in page
    assert "the disk is free again" in page
    assert Job.objects.get().status == Status.QUEUED
    assert (
        "only a failed or orphaned job"
        in client.post(f"{path}retry/", {"reason": "x"}, follow=True).content.decode()
    )


@pytest.mark.parametrize("status", [status for status in WAYS if status != Status.FAILED])
def test_only_a_failed_job_offers_a_retry(cast: Cast, status: Status) -> None:
    assert "Retry this job" not in _page(cast.owner, f"/jobs/{job_in(status, cast.site).code}/")


def test_the_retry_is_for_those_who_may(cast: Cast) -> None:
    path = f"/jobs/{job_in(Status.FAILED, cast.site).code}/"
    for user, shown, status in (
        (cast.viewer, False, 403),
        (cast.onlooker, False, 403),
        (cast.operator_member, True, 302),
    ):
        assert ("Retry this job" in _page(user, path)) is shown
        assert visitor(user).post(f"{path}retry/", {"reason": "x"}).status_code == status
    assert visitor(cast.stranger).post(f"{path}retry/", {"reason": "x"}).status_code == 404


def test_what_needed_an_approval_or_is_gone_offers_no_retry(cast: Cast) -> None:
    backup = make_backup(cast.site)
    restore = job_in(Status.FAILED, cast.site, "RESTORE", payload={"backup": backup.code})
    gone = make_job(cast.site, status=Status.FAILED, job_type="FORMER")
    for job, status in ((restore, 403), (gone, 302)):
        path = f"/jobs/{job.code}/"
        assert "Retry this job" not in _page(cast.owner, path)
        assert visitor(cast.owner).post(f"{path}retry/", {"reason": "x"}).status_code == status
    assert set(Job.objects.values_list("status", flat=True)) == {"FAILED"}


def test_a_child_that_was_called_off_leads_to_its_parent(cast: Cast) -> None:
    """Queue D12."""
    parent, child = chain_of(cast.site, cast.site)
    moved(parent, Status.CANCELLED)
    path = f"/jobs/{child.code}/"
    page = _page(cast.owner, path)
    assert "Called off with" in page
    assert f'href="/jobs/{parent.code}/"' in page
    refused = visitor(cast.owner).post(f"{path}retry/", {"reason": "x"}, follow=True)
    assert f"was called off with {parent.code}; retry that one" in refused.content.decode()


def test_what_a_job_waits_for_and_what_waits_for_it_are_linked(cast: Cast) -> None:
    first, second = chain_of(cast.site, cast.read_only_site)
    page = _page(cast.owner, f"/jobs/{second.code}/")
    assert f"Waiting: waits for {first.code} (BACKUP, QUEUED)." in page
    assert "<dt>Waits for</dt>" in page
    assert f'href="/jobs/{first.code}/"' in page
    assert f'href="/jobs/{second.code}/"' in _page(cast.owner, f"/jobs/{first.code}/")


def test_a_job_of_others_is_not_linked(cast: Cast) -> None:
    """Rule 16."""
    foreign, mine = chain_of(cast.foreign_site, cast.site)
    assert f'href="/jobs/{foreign.code}/"' not in _page(cast.owner, f"/jobs/{mine.code}/")
    assert mine.code not in _page(cast.stranger, f"/jobs/{foreign.code}/")


def test_nothing_is_said_of_progress_that_was_not_reported(cast: Cast) -> None:
    job = job_in(Status.RUNNING, cast.site)
    for path in (f"/jobs/{job.code}/", "/jobs/", f"/sites/{cast.site.pk}/"):
        assert "0 %" not in _page(cast.owner, path), path
    Job.objects.update(progress_step="archiving")
    assert "archiving" in _page(cast.owner, "/jobs/")
    assert "0 %" not in _page(cast.owner, "/jobs/")
    Job.objects.update(progress_percent=7)
    assert "7 %, archiving" in _page(cast.owner, "/jobs/")


def test_no_message_on_a_jobs_page_says_what_its_state_was(cast: Cast) -> None:
    client = visitor(cast.owner)
    page = client.post(f"/sites/{cast.site.pk}/back-up/", {"key": "k"}, follow=True).content.decode()
    job = Job.objects.get()
    assert f"You asked for {job.code}." in page
    assert "is queued" not in page
    moved(moved(job, Status.RUNNING), Status.SUCCESS)
    fragment = _page(cast.owner, f"/jobs/{job.code}/progress/")
    assert "Done and verified." in fragment


def test_a_job_that_fails_offers_its_retry_without_a_reload(cast: Cast) -> None:
    job = job_in(Status.FAILED, cast.site)
    fragment = _page(cast.owner, f"/jobs/{job.code}/progress/")
    assert fragment.index('<div id="job-decisions" hx-swap-oob') < fragment.index("Retry this job")


def test_a_hundred_jobs_of_one_moment_are_seen_once_each(cast: Cast) -> None:
    """Queue I6."""
    made = [make_job(cast.site) for _ in range(100)]
    Job.objects.update(created_at=made[0].created_at)
    client, seen, query = visitor(cast.owner), [], {}
    while True:
        page = client.get("/jobs/", query).context["page"]
        seen += page.rows
        if page.next_before is None:
            break
        query = {"before": page.next_before}
    assert seen == made[::-1]

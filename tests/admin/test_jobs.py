"""Jobs in the admin: figures, filters, relations, decisions, conflicts, workers."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from audit import clock
from audit.clock import database_now
from audit.models import AuditEntry
from jobs import agent_client
from jobs.agent_client import AgentUnreachable
from jobs.models import Job, Worker
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker
from tests.panel.samples import HOSTILE, WAYS, chain_of, job_in, make_backup, make_job, queries_of, visitor

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/job/"
CONFLICTS = f"{LIST}conflicts/"


@pytest.fixture
def looker(cast: Cast) -> Client:
    """Give the browser of staff who may look at jobs and at nothing else."""
    cast.onlooker.user_permissions.set(Permission.objects.filter(codename="view_job"))
    return visitor(cast.onlooker)


def _found(client: Client, **query: str) -> list[Job]:
    answer = client.get(LIST, query)
    assert answer.status_code == 200
    return list(answer.context["cl"].result_list)


def _page(client: Client, job: Job) -> str:
    return client.get(f"{LIST}{job.pk}/change/").content.decode()


def _address(verb: str, *jobs: Job) -> str:
    return f"{LIST}decide/{verb}/?" + "&".join(f"job={job.pk}" for job in jobs)


def _decide(client: Client, verb: str, *jobs: Job, **values: str) -> str:
    return client.post(_address(verb, *jobs), values, follow=True).content.decode()


def _act(client: Client, action: str, *jobs: Job, **more: str) -> Any:
    chosen = {"action": action, "_selected_action": [str(job.pk) for job in jobs], **more}
    return client.post(LIST, chosen, follow=True)


def test_the_list_begins_with_the_figures(cast: Cast, staff: Client) -> None:
    submitted(cast.site, "BACKUP")
    submitted(cast.site, "BACKUP")
    job_in(Status.ORPHANED, cast.foreign_site)
    page = " ".join(staff.get(LIST).content.decode().split())
    assert "<dt>Queued</dt><dd>2</dd>" in page
    assert "Of the queued, 1 ready; 1: behind an earlier job of its kind on its site." in page
    assert "<dt>Orphaned</dt><dd>1</dd>" in page
    assert "<dt>Workers alive</dt><dd>0</dd>" in page


def test_filters_narrow(cast: Cast, staff: Client) -> None:
    ready = submitted(cast.site, "BACKUP")
    behind = submitted(cast.site, "BACKUP")
    failed = job_in(Status.FAILED, cast.foreign_site)
    assert _found(staff, readiness="READY") == [ready]
    assert _found(staff, readiness="BEHIND") == [behind]
    assert _found(staff, readiness="PAUSED") == []
    assert _found(staff, status__exact="FAILED") == [failed]
    assert _found(staff, server=str(cast.server.pk)) == [failed, behind, ready]
    assert _found(staff, server="999999") == []
    assert _found(staff, job_type="BACKUP", priority__exact="0") == []


ODD = (
    "server=x",
    "server=-1",
    "readiness=x",
    "server=²",
    "site=9223372036854775808",
    "plan=99999999999999999999",
)
NULS = ("status=%00", "readiness=%00", "job_type=%00", "customer=%00", "q=%00")


@pytest.mark.parametrize("query", [*ODD, *NULS])
def test_odd_filters_do_not_break_the_list(cast: Cast, staff: Client, query: str) -> None:
    assert staff.get(f"{LIST}?{query}").status_code in (200, 302)


def test_a_jobs_page_links_those_around_it(cast: Cast, staff: Client) -> None:
    first, second = chain_of(cast.site, cast.foreign_site)
    assert f'{LIST}{second.pk}/change/">{second.code}</a> (BACKUP, queued)' in _page(staff, first)
    assert f'{LIST}{first.pk}/change/">{first.code}</a> (BACKUP, queued)' in _page(staff, second)
    moved(first, Status.CANCELLED)
    page = _page(staff, second)
    assert "called off with" in page.lower()
    running = job_in(Status.RUNNING, cast.read_only_site)
    blocked = submitted(cast.read_only_site, "BACKUP")
    assert f'{LIST}{running.pk}/change/">{running.code}</a>' in _page(staff, blocked)


def test_the_history_tells_the_time_between_lines(cast: Cast, staff: Client) -> None:
    start = database_now()
    with clock.override(start):
        job = submitted(cast.site, "BACKUP")
    for seconds, to in ((1.5, Status.RUNNING), (91.5, Status.CANCEL_REQUESTED), (7_500, Status.CANCELLED)):
        with clock.override(start + timedelta(seconds=seconds)):
            moved(job, to)
    page = _page(staff, job)
    spans = [page.index(f"<td>{text}</td>") for text in ("+2 h 3 min", "+1 min 30 s", "+1.5 s")]
    assert spans == sorted(spans)


@pytest.mark.parametrize("action", ["cancel_jobs", "retry_jobs", "resolve_jobs"])
def test_an_action_asks_for_the_reason_and_has_done_nothing_yet(
    cast: Cast, staff: Client, action: str
) -> None:
    jobs = [submitted(cast.site, "BACKUP"), job_in(Status.FAILED, cast.foreign_site)]
    before = list(Job.objects.values())
    answer = _act(staff, action, *jobs)
    page = answer.content.decode()
    assert answer.redirect_chain[0][0].startswith(f"{LIST}decide/{action.partition('_')[0]}/")
    assert 'name="reason"' in page
    assert all(job.code in page for job in jobs)
    assert list(Job.objects.values()) == before


def test_each_chosen_job_is_decided_by_itself(cast: Cast, staff: Client) -> None:
    first, over, last = (
        submitted(cast.site, "BACKUP"),
        job_in(Status.SUCCESS, cast.foreign_site),
        submitted(cast.read_only_site, "BACKUP"),
    )
    page = _decide(staff, "cancel", first, over, last, reason="a mistake")
    assert f"{first.code}: cancelled." in page
    assert f"{last.code}: cancelled." in page
    assert f"{over.code} is success; only a queued or running job can be cancelled." in page
    assert list(Job.objects.order_by("pk").values_list("status", flat=True)) == [
        *("CANCELLED", "SUCCESS", "CANCELLED")
    ]
    assert AuditEntry.objects.filter(actor="staff (admin)", reason="a mistake").count() == 2


@pytest.mark.parametrize("status", [status for status in WAYS if status not in ("QUEUED", "RUNNING")])
def test_what_is_over_cannot_be_called_off_however_often(cast: Cast, staff: Client, status: Status) -> None:
    """Queue D6."""
    job = job_in(status, cast.site)
    before = list(Job.objects.values())
    for _ in range(2):
        assert "only a queued or running job can be cancelled" in _decide(staff, "cancel", job, reason="x")
    assert list(Job.objects.values()) == before


def test_a_failed_job_is_done_again_and_a_child_names_its_parent(cast: Cast, staff: Client) -> None:
    """Queue D12."""
    parent, child = chain_of(cast.site, cast.site)
    moved(moved(parent, Status.RUNNING), Status.FAILED)
    page = _decide(staff, "retry", child, reason="x")
    assert f"was called off with {parent.code}; retry that one" in page
    assert f"{parent.code}: queued." in _decide(staff, "retry", parent, reason="x")
    assert set(Job.objects.values_list("status", flat=True)) == {"QUEUED"}


@pytest.mark.parametrize(
    ("outcome", "status"), [("RESOLVED", "RESOLVED"), ("FAILED", "FAILED"), ("RETRY", "QUEUED")]
)
def test_an_orphan_is_resolved_with_outcome_and_reason(
    cast: Cast, staff: Client, outcome: str, status: str
) -> None:
    job = job_in(Status.ORPHANED, cast.site)
    for missing in ({"reason": "x"}, {"outcome": outcome}, {"outcome": "NOPE", "reason": "x"}):
        _decide(staff, "resolve", job, **missing)
        assert Job.objects.get().status == "ORPHANED"
    _decide(staff, "resolve", job, outcome=outcome, reason="looked at")
    assert Job.objects.get().status == status


def test_the_evidence_is_asked_for_on_the_page_of_an_orphan_only(
    cast: Cast, staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue B1."""
    asked: list[object] = []

    def silent(server: object, question: object) -> None:
        asked.append(question)
        raise AgentUnreachable(HOSTILE)

    monkeypatch.setattr(agent_client, "ask", silent)
    orphan, failed = job_in(Status.ORPHANED, cast.site), job_in(Status.FAILED, cast.foreign_site)
    for path in (LIST, f"{LIST}{orphan.pk}/change/", _address("cancel", orphan), _address("resolve", failed)):
        assert staff.get(path).status_code == 200
    assert asked == []
    page = staff.get(_address("resolve", orphan)).content.decode()
    assert len(asked) == 1
    assert f"The agent of {cast.server} does not answer" in page
    assert "<img src=x" not in page


def test_a_restore_offers_no_retry_and_says_why(cast: Cast, staff: Client) -> None:
    backup = make_backup(cast.site)
    job = job_in(Status.ORPHANED, cast.site, "RESTORE", payload={"backup": backup.code})
    assert "needs a new approval" in staff.get(_address("resolve", job)).content.decode()
    assert "served one run" in _decide(staff, "resolve", job, outcome="RETRY", reason="x")
    assert Job.objects.get().status == "ORPHANED"


def test_nothing_chosen_is_nothing_done(cast: Cast, staff: Client) -> None:
    """Queue I10: neither an empty choice nor "all" reaches further than the rows that were ticked."""
    jobs = [submitted(cast.site, "BACKUP") for _ in range(3)]
    for path in (
        f"{LIST}decide/cancel/",
        f"{LIST}decide/cancel/?job=x&job=-1&job=",
        f"{LIST}decide/cancel/?job={2**70}",
    ):
        page = staff.post(path, {"reason": "x"}, follow=True).content.decode()
        assert "No job was chosen" in page
    _act(staff, "cancel_jobs")
    answer = _act(staff, "cancel_jobs", jobs[0], select_across="1")
    assert answer.redirect_chain[0][0].endswith(f"?job={jobs[0].pk}")
    assert staff.get(LIST).context["actions_selection_counter"] is False
    assert set(Job.objects.values_list("status", flat=True)) == {"QUEUED"}


def test_there_is_no_other_decision(cast: Cast, staff: Client) -> None:
    assert staff.get(f"{LIST}decide/delete/?job=1").status_code == 404


def test_buttons_are_those_that_fit_the_state(cast: Cast, staff: Client) -> None:
    shown = {
        Status.QUEUED: ["cancel"],
        Status.FAILED: ["retry", "resolve"],
        Status.SUCCESS: [],
    }
    backup = make_backup(cast.site)
    restore = job_in(Status.FAILED, cast.site, "RESTORE", payload={"backup": backup.code})
    jobs = [(job_in(status, cast.site), verbs) for status, verbs in shown.items()]
    for job, verbs in [*jobs, (restore, ["resolve"])]:
        page = _page(staff, job)
        assert [verb for verb in ("cancel", "retry", "resolve") if _address(verb, job) in page] == verbs


def test_who_may_not_operate_is_refused_and_recorded(cast: Cast, looker: Client) -> None:
    queued, lost = submitted(cast.site, "BACKUP"), job_in(Status.ORPHANED, cast.foreign_site)
    assert "the right BACKUP is missing" in _decide(looker, "cancel", queued, reason="x")
    assert "the right BACKUP is missing" in _decide(looker, "retry", lost, reason="x")
    assert "Only staff may resolve" in _decide(looker, "resolve", lost, reason="x", outcome="RESOLVED")
    assert AuditEntry.objects.filter(action="access.denied", actor="onlooker (admin)").count() == 3
    assert set(Job.objects.values_list("status", flat=True)) == {"QUEUED", "ORPHANED"}


def test_decisions_and_conflicts_are_for_staff_who_may_look(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    for path in (CONFLICTS, _address("cancel", job)):
        for user in (None, cast.owner, cast.stranger):
            answer = visitor(user).get(path)
            assert answer.status_code == 302, path
            assert "/admin/login/" in answer["Location"]
        assert visitor(cast.onlooker).get(path).status_code == 403
    assert visitor(cast.onlooker).post(_address("cancel", job), {"reason": "x"}).status_code == 403


def test_the_conflicts_are_shown_to_who_may_look(cast: Cast, looker: Client) -> None:
    assert CONFLICTS in looker.get(LIST).content.decode()
    page = " ".join(looker.get(CONFLICTS).content.decode().split())
    row = page[page.index('<th scope="row">BACKUP</th>') :]
    cells = row[: row.index("</tr>")]
    assert cells.count('class="job-wait"') + cells.count('class="job-allowed"') == 4
    assert '<td class="job-wait">wait</td>' in cells


def test_a_job_of_a_type_that_is_gone_is_shown_and_called_off(cast: Cast, staff: Client) -> None:
    """Queue H1."""
    job = make_job(cast.site, job_type="FORMER")
    assert "FORMER" in _page(staff, job)
    assert job.code in staff.get(LIST).content.decode()
    assert f"{job.code}: cancelled." in _decide(staff, "cancel", job, reason="type is gone")


def test_a_hundred_jobs_of_one_moment_are_seen_once_each(cast: Cast, staff: Client) -> None:
    """Queue I6."""
    made = [make_job(cast.site) for _ in range(100)]
    Job.objects.update(created_at=made[0].created_at)
    assert [*_found(staff, p="1"), *_found(staff, p="2")] == made[::-1]


def test_hostile_text_stays_text_where_jobs_are_decided(cast: Cast, staff: Client) -> None:
    cast.site.display_domain = HOSTILE
    cast.site.save()
    job = job_in(Status.ORPHANED, cast.site)
    Job.objects.update(error_message=HOSTILE, worker_name=HOSTILE)
    page = staff.get(_address("resolve", job)).content.decode()
    assert "<img src=x" not in page
    assert "&lt;img" in page


def test_workers_show_whether_they_live_and_how_their_clock_goes(cast: Cast, staff: Client) -> None:
    """Queue F9."""
    alive, silent = worker("alive"), worker("silent")
    Worker.objects.filter(pk=alive.pk).update(clock_skew_seconds=-600.25)
    past = database_now() - timedelta(hours=1)
    Worker.objects.filter(pk=silent.pk).update(polled_at=past, clock_skew_seconds=0.4)
    page = staff.get("/admin/jobs/worker/").content.decode()
    assert page.count("icon-yes") == page.count("icon-no") == 1
    assert '<span class="job-warning">-600.2 s</span>' in page
    assert '<span class="job-info">+0.4 s</span>' in page
    one = staff.get(reverse("admin:jobs_worker_change", args=[alive.pk])).content.decode()
    assert "icon-yes" in one


def test_lists_cost_the_same_however_long(cast: Cast, staff: Client) -> None:
    def grow() -> None:
        chain_of(cast.site, cast.foreign_site)
        submitted(cast.site, "BACKUP")
        worker()

    grow()
    few = [queries_of(staff, path) for path in (LIST, "/admin/jobs/worker/")]
    for _ in range(10):
        grow()
    assert [queries_of(staff, path) for path in (LIST, "/admin/jobs/worker/")] == few


@pytest.mark.parametrize("server", ["9" * 30, "-1", "x", "", "١"])
def test_an_odd_server_in_the_address_is_no_error(staff: Client, server: str) -> None:
    assert staff.get("/admin/jobs/job/", {"server": server}, follow=True).status_code == 200

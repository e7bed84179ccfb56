"""hosting-job list, show and events: what is found, how it looks, and what stays hidden."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import clock
from audit.clock import database_now
from jobs.models import Job, Worker
from jobs.states import Status
from tests.cast import Cast, site
from tests.commands.running import run, run_json
from tests.jobs.samples import moved, submitted, worker
from tests.panel.samples import chain_of, job_in, make_job

pytestmark = pytest.mark.django_db


def _codes(*arguments: str) -> list[str]:
    code, data = run_json("hosting_job", "list", *arguments)
    assert code == 0
    return [row["code"] for row in data]


@contextmanager
def _asked_for(ago: timedelta) -> Iterator[None]:
    with clock.override(database_now() - ago):
        yield


def test_jobs_are_listed_filtered_and_shown_within_80_columns(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    code, out, _ = run("hosting_job", "list", "--status", "QUEUED", "--site", cast.site.domain)
    lines = out.splitlines()
    assert (code, lines[0].split()) == (0, ["JOB", "TYPE", "SITE", "STATUS", "PRIORITY"])
    assert lines[1].split() == [job.code, "BACKUP", cast.site.domain, "QUEUED", "NORMAL"]
    assert run_json("hosting_job", "list", "--type", "RESTORE") == (0, [])


def test_a_long_domain_is_cut_in_the_table_only(cast: Cast) -> None:
    domain = f"{'a-very-long-name-of-a-shop' * 2}.test"
    long = site(cast.customer, cast.server, domain)
    for shown in (long, cast.site):
        job_in(Status.CANCEL_REQUESTED, shown)
    waits = submitted(long, "BACKUP")
    for arguments in ((), ("--waiting",)):
        _, out, _ = run("hosting_job", "list", *arguments)
        assert max(map(len, out.splitlines())) <= 80
        (line,) = (line for line in out.splitlines() if line.startswith(waits.code))
        assert line.split()[2].endswith("…")
        assert domain.startswith(line.split()[2].rstrip("…"))
    assert run_json("hosting_job", "list", "--site", domain)[1][0]["site"] == domain


def test_each_filter_narrows(cast: Cast) -> None:
    mine, foreign = submitted(cast.site, "BACKUP"), submitted(cast.foreign_site, "BACKUP")
    held = moved(submitted(cast.read_only_site, "BACKUP"), Status.RUNNING, worker_name="w7", place=1)
    assert _codes() == [held.code, foreign.code, mine.code]
    assert _codes("--customer", "theirs") == [foreign.code]
    assert _codes("--worker", "w7") == [held.code]
    assert _codes("--site", "SHOP.test.") == [mine.code]
    assert _codes("--server", "web1", "--status", "RUNNING", "--status", "QUEUED") == _codes()
    assert _codes("--type", "backup", "--status", "FAILED") == []


def test_since_counts_back_or_names_a_time(cast: Cast) -> None:
    with _asked_for(timedelta(days=3)):
        old = submitted(cast.site, "BACKUP")
    with _asked_for(timedelta(hours=3)):
        recent = submitted(cast.foreign_site, "BACKUP")
    assert _codes("--since", "24h") == _codes("--since", "2d") == [recent.code]
    assert _codes("--since", "200m") == [recent.code]
    assert _codes("--since", "7d") == [recent.code, old.code]
    point = (database_now() - timedelta(days=1)).astimezone(UTC)
    for text in (point.isoformat(), point.replace(tzinfo=None).isoformat(), f"{point:%Y-%m-%dT%H:%MZ}"):
        assert _codes("--since", text) == [recent.code]


@pytest.mark.parametrize(
    "wrong",
    [("--since", "yesterday"), ("--since", "24"), ("--since", "1.5h"), ("--since", "0h"), ("--after", "7")],
)
def test_a_wrong_value_is_wrong_usage(cast: Cast, wrong: tuple[str, str]) -> None:
    code, out, err = run("hosting_job", "list", *wrong)
    assert (code, out) == (2, "")
    assert wrong[1] in err


@pytest.mark.parametrize("wrong", [("--site", "no.test"), ("--server", "web9"), ("--customer", "nobody")])
def test_what_is_not_there_is_no_empty_list_but_a_sentence(cast: Cast, wrong: tuple[str, str]) -> None:
    code, _, err = run("hosting_job", "list", *wrong)
    assert code == 1
    assert wrong[1] in err


def test_waiting_ones_are_listed_with_their_reason(cast: Cast) -> None:
    first, second = chain_of(cast.site, cast.foreign_site)
    job_in(Status.FAILED, cast.read_only_site)
    _, out, _ = run("hosting_job", "list", "--waiting")
    assert f"waits for {first.code} (BACKUP, QUEUED)" in out
    assert "no live worker" in out
    assert _codes("--waiting") == [second.code, first.code]
    assert max(map(len, out.splitlines())) <= 80


def test_every_job_is_seen_once_by_following_after(cast: Cast) -> None:
    """Queue I6: a hundred jobs of one moment, by pages of 25."""
    with clock.override(datetime(2026, 8, 13, 18, tzinfo=UTC)):
        made = [submitted(cast.site, "BACKUP").code for _ in range(100)]
    assert Job.objects.values("created_at").distinct().count() == 1
    page = _codes("--limit", "25")
    pages = []
    while page:
        pages.append(page)
        page = _codes("--limit", "25", "--after", page[-1])
    assert [len(page) for page in pages] == [25] * 4
    assert [code for page in pages for code in page] == made[::-1]


def test_a_page_that_is_full_says_how_to_go_on(cast: Cast) -> None:
    jobs = [submitted(cast.site, "BACKUP") for _ in range(3)]
    assert f"--after {jobs[1].code}" in run("hosting_job", "list", "--limit", "2")[1]
    assert "--after" not in run("hosting_job", "list", "--limit", "3")[1]


@pytest.mark.parametrize("arguments", [("--json",), ("--waiting",), ("--waiting", "--json"), ()])
def test_the_list_asks_the_same_number_of_questions_however_long(
    cast: Cast, arguments: tuple[str, ...]
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert run("hosting_job", "list", "--limit", "200", *arguments)[0] == 0
        return len(asked)

    chain_of(cast.site, cast.foreign_site)
    submitted(cast.site, "BACKUP")
    few = queries()
    for _ in range(10):
        chain_of(cast.site, cast.foreign_site)
    assert queries() == few <= 15


@pytest.mark.parametrize("spelling", ["JOB-{:06d}", "job-{}", "JOB-{}"])
def test_a_job_is_found_by_its_code(cast: Cast, spelling: str) -> None:
    job = submitted(cast.site, "BACKUP")
    code, out, _ = run("hosting_job", "show", spelling.format(job.pk))
    assert code == 0
    assert out.startswith(f"{job.code}\n==========\n")
    assert "no live worker" in out


@pytest.mark.parametrize("wrong", ["7", "JOB-0", "JOB-999999", "x' OR 1", "JOB-" + "9" * 40])
def test_what_is_no_job_is_exit_code_1(cast: Cast, wrong: str) -> None:
    code, _, err = run("hosting_job", "show", wrong)
    assert code == 1
    assert err


def test_a_running_job_shows_what_the_lesson_shows(cast: Cast) -> None:
    start = datetime(2026, 8, 13, 18, 2, tzinfo=UTC)
    job = moved(
        submitted(cast.site, "BACKUP"),
        Status.RUNNING,
        worker_name="worker-01",
        place=1,
        attempt=1,
        started_at=start,
        heartbeat_at=start + timedelta(minutes=5),
        deadline_at=start + timedelta(hours=2),
        progress_percent=42,
        progress_step="archiving the files",
    )
    lines = [line.split(None, 1) for line in run("hosting_job", "show", job.code)[1].splitlines()]
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    assert (told["Type:"], told["Site:"], told["Status:"]) == ("BACKUP", "shop.test", "RUNNING")
    assert (told["Priority:"], told["Worker:"], told["Attempt:"]) == (
        "NORMAL",
        "worker-01, place 1",
        "1 of 3",
    )
    assert (told["Started:"], told["Heartbeat:"]) == ("2026-08-13 18:02:00", "2026-08-13 18:07:00")
    assert (told["Deadline:"], told["Progress:"]) == ("2026-08-13 20:02:00", "42 % archiving the files")


def test_result_error_and_relations_are_shown(cast: Cast) -> None:
    first, second = chain_of(cast.site, cast.site)
    moved(first, Status.RUNNING)
    moved(first, Status.FAILED, error_code="failed", error_message="no room", result={"backup": "BK-1"})
    out = run("hosting_job", "show", first.code)[1]
    assert "no room" in out
    assert "backup: BK-1" in out
    assert f"{second.code} (BACKUP, CANCELLED)" in out
    data = run_json("hosting_job", "show", second.code)[1]
    assert (data["parents"], data["called_off_with"], data["readiness"]) == ([first.code], first.code, None)
    assert run_json("hosting_job", "show", first.code)[1]["dependents"] == [second.code]
    assert "Progress" not in out


def test_a_member_sees_only_own_jobs_and_own_relations(cast: Cast) -> None:
    """Rule 16: a chain that staff made across customers tells neither of the other's job."""
    foreign, mine = chain_of(cast.foreign_site, cast.site)
    as_owner = ("--as", cast.owner.username)
    assert run("hosting_job", "show", foreign.code, *as_owner)[0] == 1
    assert run_json("hosting_job", "show", mine.code, *as_owner)[1]["parents"] == []
    assert run_json("hosting_job", "show", mine.code)[1]["parents"] == [foreign.code]
    assert _codes(*as_owner) == [mine.code]
    for option, value in (("--customer", "theirs"), ("--site", "foreign.test")):
        code, _, err = run("hosting_job", "list", option, value, *as_owner)
        assert code == 1
        assert "There is no" in err


def test_a_server_of_others_is_not_there_for_a_member(cast: Cast) -> None:
    cast.server.pk, cast.server.name = None, "web2"
    cast.server.save(force_insert=True)
    code, _, err = run("hosting_job", "list", "--server", "web2", "--as", cast.owner.username)
    assert (code, err) == (1, "There is no server 'web2'. Servers are: web1.\n")
    assert run("hosting_job", "list", "--server", "web2")[0] == 0


def test_a_job_of_a_type_that_is_gone_is_listed_and_shown(cast: Cast) -> None:
    """Queue H1."""
    job = make_job(cast.site, job_type="FORMER")
    Worker.objects.filter(pk=worker().pk).update(job_types=["BACKUP"])
    assert "no live worker knows type FORMER" in run("hosting_job", "show", job.code)[1]
    assert _codes("--type", "former") == [job.code]


def test_events_are_told_in_order(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    run("hosting_job", "cancel", job.code, "--reason", "not needed")
    _, events = run_json("hosting_job", "events", job.code)
    assert [event["event_type"] for event in events] == ["CREATED", "CANCELLED"]
    assert Job.objects.get().status == Status.CANCELLED


def test_a_job_that_was_changed_past_the_engine_is_told(cast: Cast) -> None:
    """Queue J5."""
    job, other = chain_of(cast.site, cast.site)
    code, out, _ = run("hosting_job", "verify", "--json")
    assert (code, json.loads(out)) == (0, {"discrepancies": []})
    Job.objects.filter(pk=job.pk).update(status=Status.SUCCESS, readiness="")
    code, out, _ = run("hosting_job", "verify", "--json")
    changed = {"job": job.code, "type": "BACKUP", "status": "SUCCESS", "trail": "QUEUED"}
    assert (code, json.loads(out)) == (1, {"discrepancies": [changed]})
    code, out, _ = run("hosting_job", "verify")
    assert code == 1
    assert job.code in out
    assert other.code not in out
    assert max(map(len, out.splitlines())) <= 80


def test_bytes_that_are_no_text_are_told_in_one_line(cast: Cast) -> None:
    code, out, err = run("hosting_job", "list", "--type", "\udcff")
    assert (code, out) == (2, "")
    assert "not UTF-8" in err


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (("--type", "RESTROE"), 1),
        (("--worker", "nope"), 1),
        (("--after", "JOB-999999"), 1),
        (("--limit", "0"), 2),
        (("--limit", "1001"), 2),
    ],
)
def test_what_is_mistyped_is_no_empty_list(cast: Cast, wrong: tuple[str, str], status: int) -> None:
    code, out, err = run("hosting_job", "list", *wrong)
    assert (code, out) == (status, "")
    assert err


def test_an_empty_list_says_so(cast: Cast) -> None:
    assert run("hosting_job", "list")[1] == "No jobs.\n"


def test_what_only_others_have_is_not_there(cast: Cast) -> None:
    """A type that is gone and a worker's label, known from another customer's job alone."""
    Job.objects.filter(pk=submitted(cast.foreign_site, "BACKUP").pk).update(job_type="GONE", worker_name="w9")
    worker("w8")
    for wrong in (("--type", "GONE"), ("--worker", "w9"), ("--worker", "w8")):
        assert run("hosting_job", "list", *wrong, "--as", cast.owner.username)[0] == 1
        assert run("hosting_job", "list", *wrong)[0] == 0

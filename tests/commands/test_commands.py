"""The operators' commands: what they print, their exit codes, --json, --as."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit.actions import Action
from audit.clock import database_now
from audit.models import AuditEntry
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from jobs.states import Status
from provisioning.models import Resource
from sites.models import Site
from tests.cast import Cast
from tests.jobs.samples import submitted

pytestmark = pytest.mark.django_db


def run(command: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command and give exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(command, *arguments, stdout=out, stderr=err)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except CommandError as error:
        code = error.returncode
        err.write(str(error))
    return code, out.getvalue(), err.getvalue()


def run_json(command: str, *arguments: str) -> Any:
    """Run a command with --json and give its value."""
    code, out, _ = run(command, *arguments, "--json")
    return code, json.loads(out)


@pytest.fixture
def backup(cast: Cast) -> Backup:
    return Backup.objects.create(
        code="BK-20260813-170001",
        site=cast.site,
        server=cast.server,
        store="archive",
        schedule_type=ScheduleType.MANUAL,
        integrity=Integrity.VERIFIED,
        created_at=database_now(),
        size_bytes=1536,
    )


def test_a_backup_is_asked_for_by_domain_in_any_spelling(cast: Cast) -> None:
    code, data = run_json("hosting_backup", "SHOP.test.", "--reason", "before an upgrade")
    job = Job.objects.get()
    assert (code, data["code"], job.job_type, job.site) == (0, job.code, "BACKUP", cast.site)
    assert job.reason == "before an upgrade"


def test_without_json_one_line_tells_the_job(cast: Cast) -> None:
    _, out, _ = run("hosting_backup", cast.site.domain)
    assert out == f"{Job.objects.get().code}  BACKUP  {cast.site}  QUEUED\n"


def test_an_unknown_site_is_exit_code_1_and_one_sentence(cast: Cast) -> None:
    code, _, err = run("hosting_backup", "nowhere.test")
    assert (code, err) == (1, "There is no site 'nowhere.test'.\n")
    code, data = run_json("hosting_backup", "a;id")
    assert (code, data["error"]["message"]) == (1, "There is no site 'a;id'.")


def test_with_as_a_command_has_no_more_than_the_users_rights(cast: Cast) -> None:
    code, _, err = run("hosting_backup", cast.site.domain, "--as", cast.viewer.username)
    assert code == 1
    assert "the right BACKUP is missing" in err
    code, _, err = run("hosting_backup", cast.site.domain, "--as", cast.stranger.username)
    assert (code, err) == (1, f"There is no site '{cast.site.domain}'.\n")
    assert run("hosting_backup", cast.site.domain, "--as", "nobody-here")[0] == 2
    assert not Job.objects.exists()


def test_waiting_for_a_job_that_nobody_runs_ends_with_1_and_says_that_it_goes_on(cast: Cast) -> None:
    code, out, err = run("hosting_backup", cast.site.domain, "--wait", "--timeout", "0.3")
    assert code == 1
    assert "QUEUED" in out
    assert "it goes on" in err


def test_the_same_key_gives_the_same_job(cast: Cast) -> None:
    codes = {run_json("hosting_backup", cast.site.domain, "--key", "k")[1]["code"] for _ in range(2)}
    assert len(codes) == 1


def test_jobs_are_listed_filtered_and_shown_within_80_columns(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    code, out, _ = run("hosting_job", "list", "--status", "QUEUED", "--site", cast.site.domain)
    lines = out.splitlines()
    assert (code, lines[0].split()) == (0, ["JOB", "TYPE", "SITE", "STATUS", "PRIORITY"])
    assert lines[1].split() == [job.code, "BACKUP", cast.site.domain, "QUEUED", "NORMAL"]
    assert max(map(len, lines)) <= 80
    assert run_json("hosting_job", "list", "--type", "RESTORE") == (0, [])


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


def test_events_are_told_in_order(cast: Cast) -> None:
    job = submitted(cast.site, "BACKUP")
    run("hosting_job", "cancel", job.code, "--reason", "not needed")
    _, events = run_json("hosting_job", "events", job.code)
    assert [event["event_type"] for event in events] == ["CREATED", "CANCELLED"]
    assert Job.objects.get().status == Status.CANCELLED


def test_a_second_cancellation_is_refused(cast: Cast) -> None:
    """Queue D6."""
    job = submitted(cast.site, "BACKUP")
    assert run("hosting_job", "cancel", job.code, "--reason", "x")[0] == 0
    code, _, err = run("hosting_job", "cancel", job.code, "--reason", "x")
    assert code == 1
    assert "only a queued or running job can be cancelled" in err


def test_backups_are_listed(cast: Cast, backup: Backup) -> None:
    code, out, _ = run("hosting_backup_list", cast.site.domain)
    assert code == 0
    assert backup.code in out
    assert "1.5 KiB" in out
    assert run_json("hosting_backup_list", "--integrity", "FAILED") == (0, [])
    assert run_json("hosting_backup_list", "--as", cast.stranger.username) == (0, [])


def test_a_restore_without_yes_says_what_would_be_done_and_does_nothing(cast: Cast, backup: Backup) -> None:
    code, out, _ = run("hosting_restore", backup.code)
    assert code == 0
    assert "PRE_RESTORE" in out
    assert "Nothing was done" in out
    assert not Job.objects.exists()


def test_a_restore_with_yes_and_a_verification_make_jobs(cast: Cast, backup: Backup) -> None:
    assert run_json("hosting_restore", backup.code, "--yes")[1]["plan"].startswith("RS-")
    assert run_json("hosting_backup_verify", backup.code, "--deep")[1]["payload"]["deep"] is True


def test_a_strangers_backup_is_not_there(cast: Cast, backup: Backup) -> None:
    """Backup G2."""
    for command in ("hosting_restore", "hosting_backup_verify"):
        code, _, err = run(command, backup.code, "--as", cast.stranger.username)
        assert (code, err) == (1, f"There is no backup '{backup.code}'.\n")


def test_a_new_site_gets_its_job_and_both_or_neither_exist(cast: Cast) -> None:
    order = ("--customer", cast.customer.code, "--server", cast.server.name)
    code, data = run_json("hosting_site", "create", "München.test", *order)
    assert (code, data["site"]["domain"], data["job"]["type"]) == (0, "xn--mnchen-3ya.test", "PROVISION")
    before = Site.objects.count()
    code, _, err = run("hosting_site", "create", "second.test", *order, "--preset", "READ_ONLY")
    assert code == 1
    assert "lack MANAGE" in err
    assert Site.objects.count() == before
    assert AuditEntry.objects.latest("sequence").action == Action.ACCESS_DENIED


@pytest.mark.parametrize(
    ("domain", "words"),
    [("test..com", "test..com"), ("shop.test", "already a site"), ("a.com/", "a.com/"), ("co.uk", "co.uk")],
)
def test_a_bad_or_taken_domain_is_refused_by_name(cast: Cast, domain: str, words: str) -> None:
    order = ("--customer", cast.customer.code, "--server", cast.server.name)
    code, _, err = run("hosting_site", "create", domain, *order)
    assert code == 1
    assert words in err
    assert not Job.objects.exists()


def test_an_unknown_customer_or_server_is_exit_code_2_and_names_the_known(cast: Cast) -> None:
    code, _, err = run("hosting_site", "create", "x1.test", "--customer", "nobody", "--server", "web1")
    assert code == 2
    assert cast.customer.code in err


def test_capabilities_are_set_by_preset_and_recorded(cast: Cast) -> None:
    code, data = run_json("hosting_site", "capabilities", cast.site.domain, "--set", "READ_ONLY")
    assert (code, data["preset"]) == (0, "READ_ONLY")
    assert AuditEntry.objects.latest("sequence").action == Action.POLICY_CHANGED


def test_a_database_is_registered_once_and_never_for_two_sites(cast: Cast) -> None:
    assert run("hosting_site", "add-database", cast.site.domain, "--name", "shop")[0] == 0
    code, _, err = run("hosting_site", "add-database", cast.foreign_site.domain, "--name", "shop")
    assert code == 1
    assert "another site" in err
    assert Resource.objects.count() == 1
    assert run("hosting_site", "add-database", cast.site.domain, "--name", "mysql")[0] == 1


def test_customers_users_may_not_change_the_inventory(cast: Cast) -> None:
    before = Site.objects.get(pk=cast.site.pk).capabilities
    code, _, _ = run(
        "hosting_site", "capabilities", cast.site.domain, "--set", "READ_ONLY", "--as", cast.owner.username
    )
    assert code == 1
    assert Site.objects.get(pk=cast.site.pk).capabilities == before

"""The operators' commands: what they print, their exit codes, --json, --as."""

import pytest

from audit.actions import Action
from audit.clock import database_now
from audit.models import AuditEntry
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from provisioning.models import Resource
from sites.models import Site
from tests.cast import Cast
from tests.commands.running import run, run_json

pytestmark = pytest.mark.django_db


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

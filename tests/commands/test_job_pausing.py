"""hosting-job pause and resume, conflicts and stats."""

import pytest
from django.core.management import execute_from_command_line

from audit.actions import Action
from audit.models import AuditEntry
from jobs import registry
from jobs.management.overviews import matrix_text
from jobs.models import Pause
from jobs.states import Status
from tests.cast import Cast
from tests.commands.running import run, run_json
from tests.jobs.samples import submitted, worker
from tests.panel.samples import job_in

pytestmark = pytest.mark.django_db
WHY = ("--reason", "disk is exchanged")
TARGETS = [
    (("--all",), "all"),
    (("--type", "backup"), "type:BACKUP"),
    (("--server", "web1"), "server:{server}"),
    (("--site", "SHOP.test"), "site:{site}"),
]


@pytest.mark.parametrize(("option", "target"), TARGETS)
def test_work_is_paused_told_and_resumed(cast: Cast, option: tuple[str, ...], target: str) -> None:
    target = target.format(server=cast.server.pk, site=cast.site.pk)
    job = submitted(cast.site, "BACKUP")
    worker()
    code, data = run_json("hosting_job", "pause", *option, *WHY)
    assert (code, data["target"], data["reason"]) == (0, target, "disk is exchanged")
    assert "disk is exchanged" in " ".join(run("hosting_job", "list", "--waiting")[1].split())
    code, out, _ = run("hosting_job", "pause", "--list")
    assert code == 0
    for word in (data["paused_by"], data["since"][:10], "disk is exchanged"):
        assert word in out, word
    assert run("hosting_job", "pause", *option, *WHY)[0] == 1
    assert run_json("hosting_job", "resume", *option, "--reason", "done") == (0, {"resumed": target})
    assert not Pause.objects.exists()
    assert "next in turn" in run("hosting_job", "show", job.code)[1]
    assert run("hosting_job", "resume", *option, "--reason", "done")[0] == 1


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("arguments", [(), ("--all", "--type", "BACKUP"), ("--site", "a.test", "--all")])
def test_exactly_one_thing_is_named(
    cast: Cast, verb: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        execute_from_command_line(["hosting-job", "hosting_job", verb, *arguments, *WHY])
    assert leaving.value.code == 2
    assert "--site" in capsys.readouterr().err
    assert not Pause.objects.exists()


def test_a_pause_needs_a_reason_and_a_thing_that_is_there(cast: Cast) -> None:
    assert run("hosting_job", "pause", "--all")[0] == 2
    for option in (("--type", "NOPE"), ("--server", "web9"), ("--site", "nowhere.test")):
        code, _, err = run("hosting_job", "pause", *option, *WHY)
        assert code == 1
        assert option[1] in err
    assert not Pause.objects.exists()


def test_only_who_may_operate_pauses_and_only_staff_sees_pauses(cast: Cast) -> None:
    for user in (cast.owner, cast.viewer, cast.stranger, cast.onlooker):
        assert run("hosting_job", "pause", "--all", *WHY, "--as", user.username)[0] == 1
    assert AuditEntry.objects.filter(action=Action.ACCESS_DENIED).count() == 4
    assert run("hosting_job", "pause", "--all", *WHY, "--as", cast.staff.username)[0] == 0
    assert run("hosting_job", "pause", "--list", "--as", cast.owner.username)[0] == 1
    assert run("hosting_job", "pause", "--list", "--as", cast.onlooker.username)[0] == 0
    assert run("hosting_job", "resume", "--all", *WHY, "--as", cast.onlooker.username)[0] == 1
    assert Pause.objects.count() == 1


def test_nothing_paused_is_said(cast: Cast) -> None:
    assert run("hosting_job", "pause", "--list")[1] == "Nothing is paused.\n"
    assert run_json("hosting_job", "pause", "--list") == (0, [])


def test_the_matrix_is_of_the_installed_types() -> None:
    code, data = run_json("hosting_job", "conflicts")
    assert (code, list(data)) == (0, ["matrix"])
    matrix = data["matrix"]
    assert list(matrix) == list(registry.operations())
    assert {word for row in matrix.values() for word in row.values()} == {"wait", "allowed"}
    assert (matrix["BACKUP"]["RESTORE"], matrix["BACKUP"]["VERIFY"]) == ("wait", "allowed")
    assert (matrix["RESTORE"]["VERIFY"], matrix["VERIFY"]["VERIFY"]) == ("wait", "allowed")
    _, out, _ = run("hosting_job", "conflicts")
    assert "RESTORE" in out.splitlines()[0]
    assert max(map(len, out.splitlines())) <= 80


def test_a_matrix_of_many_types_still_fits_a_terminal() -> None:
    names = [f"SOME_LONG_TYPE_{number}" for number in range(12)]
    text = matrix_text({name: dict.fromkeys(names, "wait") for name in names})
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in names)


def test_figures_are_told_to_those_who_see_all_customers(cast: Cast) -> None:
    submitted(cast.site, "BACKUP")
    submitted(cast.site, "BACKUP")
    job_in(Status.FAILED, cast.foreign_site)
    code, data = run_json("hosting_job", "stats")
    assert code == 0
    assert (data["queued"], data["ready"], data["waiting"]["BEHIND"], data["failed_today"]) == (2, 1, 1, 1)
    out = run("hosting_job", "stats")[1]
    assert "behind an earlier job" in out
    assert "its time has not come" not in out
    assert run("hosting_job", "stats", "--as", cast.onlooker.username)[0] == 0
    code, out, err = run("hosting_job", "stats", "--as", cast.owner.username)
    assert (code, out) == (1, "")
    assert "Only staff" in err

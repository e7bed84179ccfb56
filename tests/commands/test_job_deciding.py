"""hosting-job cancel, retry and resolve: each job decided by itself, by who may, with a reason."""

from typing import Any

import pytest
from django.core.management import execute_from_command_line

from accounts.actor import operator
from audit.actions import Action
from audit.models import AuditEntry
from jobs import agent_client, pipeline
from jobs.models import Job, JobEvent
from jobs.request import JobRequest
from jobs.states import Status
from tests.cast import Cast
from tests.commands.running import run, run_json
from tests.jobs.samples import moved, submitted
from tests.panel.samples import WAYS, chain_of, job_in, make_job

pytestmark = pytest.mark.django_db

OVER = [status for status in WAYS if status not in (Status.QUEUED, Status.RUNNING)]
WHY = ("--reason", "because")


def _rows() -> list[Any]:
    return [list(Job.objects.values()), list(JobEvent.objects.values())]


@pytest.mark.parametrize("status", OVER)
def test_what_is_over_cannot_be_called_off_however_often(cast: Cast, status: Status) -> None:
    """Queue D6: a clear answer each time, and nothing changes."""
    job = job_in(status, cast.site)
    before = _rows()
    for _ in range(2):
        code, out, err = run("hosting_job", "cancel", job.code, *WHY)
        assert (code, out) == (1, "")
        sentence = f"{job.code} is {status.label}; only a queued or running job can be cancelled."
        assert err == f"{sentence}\n"
        code, data = run_json("hosting_job", "cancel", job.code, *WHY)
        assert (code, data["error"]) == (1, {"code": "wrong_state", "message": sentence})
    assert _rows() == before


def test_a_queued_job_is_called_off_and_a_running_one_asked_to_stop(cast: Cast) -> None:
    queued, running = submitted(cast.site, "BACKUP"), job_in(Status.RUNNING, cast.foreign_site)
    code, out, _ = run("hosting_job", "cancel", queued.code, running.code, *WHY)
    assert code == 0
    assert out.splitlines() == [
        f"{queued.code}: cancelled",
        f"{running.code}: cancel requested; it stops at its next checkpoint",
    ]


def test_one_refusal_among_several_is_told_and_the_others_are_done(cast: Cast) -> None:
    first, over, last = (
        submitted(cast.site, "BACKUP"),
        job_in(Status.SUCCESS, cast.foreign_site),
        submitted(cast.read_only_site, "BACKUP"),
    )
    codes = (first.code, over.code, "JOB-999999", last.code)
    code, out, err = run("hosting_job", "cancel", *codes, *WHY)
    assert code == 1
    assert out.splitlines() == [f"{first.code}: cancelled", f"{last.code}: cancelled"]
    assert [line.split(";")[0] for line in err.splitlines()] == [
        f"{over.code} is success",
        "There is no job 999999.",
    ]


def test_with_json_several_are_a_list_in_their_order(cast: Cast) -> None:
    job, over = submitted(cast.site, "BACKUP"), job_in(Status.SUCCESS, cast.foreign_site)
    code, data = run_json("hosting_job", "cancel", over.code, job.code, job.code, *WHY)
    assert (code, data[0]["job"], data[0]["error"]["code"]) == (1, over.code, "wrong_state")
    assert (data[1]["code"], data[1]["status"], len(data)) == (job.code, "CANCELLED", 2)


@pytest.mark.parametrize("verb", ["cancel", "retry", "resolve"])
@pytest.mark.parametrize("arguments", [(), WHY, ("--all", *WHY)])
def test_no_job_named_is_wrong_usage_and_touches_none(
    cast: Cast, capsys: pytest.CaptureFixture[str], verb: str, arguments: tuple[str, ...]
) -> None:
    """Queue I10: an empty choice never stands for all."""
    submitted(cast.site, "BACKUP")
    job_in(Status.FAILED, cast.foreign_site)
    before = _rows()
    with pytest.raises(SystemExit) as leaving:
        execute_from_command_line(["hosting-job", "hosting_job", verb, *arguments])
    assert leaving.value.code == 2
    assert "usage: hosting-job" in capsys.readouterr().err
    assert _rows() == before


def test_cancel_and_retry_need_a_reason(cast: Cast, capsys: pytest.CaptureFixture[str]) -> None:
    job = submitted(cast.site, "BACKUP")
    for verb in ("cancel", "retry"):
        with pytest.raises(SystemExit) as leaving:
            execute_from_command_line(["hosting-job", "hosting_job", verb, job.code])
        assert leaving.value.code == 2
    assert "--reason" in capsys.readouterr().err
    assert run("hosting_job", "cancel", job.code, "--reason", "  ")[0] == 1
    assert Job.objects.get().status == Status.QUEUED


def test_who_may_not_is_refused_and_recorded_for_each(cast: Cast) -> None:
    jobs = [submitted(cast.site, "BACKUP").code for _ in range(2)]
    code, _, err = run("hosting_job", "cancel", *jobs, *WHY, "--as", cast.viewer.username)
    assert code == 1
    assert err.count("the right BACKUP is missing") == 2
    code, _, err = run("hosting_job", "cancel", *jobs, *WHY, "--as", cast.stranger.username)
    assert (code, err.count("There is no job")) == (1, 2)
    assert AuditEntry.objects.filter(action=Action.ACCESS_DENIED).count() == 4
    assert set(Job.objects.values_list("status", flat=True)) == {"QUEUED"}
    assert run("hosting_job", "cancel", *jobs, *WHY, "--as", cast.owner.username)[0] == 0


def test_a_failed_job_is_done_again_by_its_owner(cast: Cast) -> None:
    job = job_in(Status.FAILED, cast.site)
    code, out, _ = run("hosting_job", "retry", job.code, *WHY, "--as", cast.owner.username)
    assert (code, out) == (0, f"{job.code}: queued; no live worker\n")
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.actor, entry.reason) == (
        Action.JOB_REQUEUED,
        "owner (command)",
        "because",
    )


def test_a_child_that_was_called_off_comes_back_with_its_parent_only(cast: Cast) -> None:
    """Queue D12: the refusal names the parent."""
    parent, child = chain_of(cast.site, cast.site)
    moved(parent, Status.CANCELLED)
    code, _, err = run("hosting_job", "retry", child.code, *WHY)
    assert code == 1
    assert f"{child.code} was called off with {parent.code}; retry that one" in err
    assert Job.objects.get(pk=child.pk).status == Status.CANCELLED


def test_a_retry_of_the_parent_revives_the_child(cast: Cast) -> None:
    parent, child = chain_of(cast.site, cast.site)
    moved(parent, Status.RUNNING)
    moved(parent, Status.FAILED)
    assert run("hosting_job", "retry", parent.code, *WHY)[0] == 0
    child.refresh_from_db()
    assert (child.status, child.readiness) == ("QUEUED", "PARENT")


def test_a_key_never_makes_a_second_job_and_the_retry_of_the_first_is_decided_by_itself(cast: Cast) -> None:
    """Queue E4: what comes later with the key of a failed job is that job, so its retry clashes with none."""
    wish = JobRequest("BACKUP", cast.site.pk, idempotency_key="k")
    job = pipeline.submit(operator("root"), wish).job
    moved(moved(job, Status.RUNNING), Status.FAILED)
    again = pipeline.submit(operator("root"), wish)
    assert (again.job.pk, again.created) == (job.pk, False)
    other = job_in(Status.FAILED, cast.foreign_site)
    assert run("hosting_job", "retry", job.code, *WHY)[0] == 0
    code, out, err = run("hosting_job", "retry", job.code, other.code, *WHY)
    assert (code, out) == (1, f"{other.code}: queued; no live worker\n")
    assert err == f"{job.code} is queued; only a failed or orphaned job can be retried.\n"


def test_a_job_of_a_type_that_is_gone_is_called_off_by_staff_alone(cast: Cast) -> None:
    """Queue H1."""
    job = make_job(cast.site, job_type="FORMER")
    code, _, err = run("hosting_job", "cancel", job.code, *WHY, "--as", cast.owner.username)
    assert code == 1
    assert "Only staff may cancel" in err
    assert run("hosting_job", "cancel", job.code, *WHY, "--as", cast.staff.username)[0] == 0
    assert Job.objects.get().status == Status.CANCELLED


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the agent, which is outside, say that a step was interrupted."""
    entry = {
        "id": "5fa5c105-34bb-41be-b49d-3f3dbeb61a9d:1:restore",
        "action": "backup.restore_backup",
        "state": "INTERRUPTED",
        "started_at": 1_786_000_000_000,
        "ended_at": None,
        "outcome": None,
    }
    monkeypatch.setattr(agent_client, "ask", lambda server, asked: {"entries": [entry]})


@pytest.mark.usefixtures("journal")
def test_resolve_without_an_outcome_shows_the_evidence_and_changes_nothing(cast: Cast) -> None:
    """Queue B1: worker, last beat, step and journal; and what can be decided."""
    job = job_in(Status.ORPHANED, cast.site)
    Job.objects.update(worker_name="w1")
    before = _rows()
    code, out, _ = run("hosting_job", "resolve", job.code)
    assert code == 2
    for word in ("w1", "INTERRUPTED", "restore of claim 1", "2026-08-06", "RESOLVED:", "FAILED:", "RETRY:"):
        assert word in out, word
    code, data = run_json("hosting_job", "resolve", job.code)
    assert (code, list(data["options"])) == (2, ["RESOLVED", "FAILED", "RETRY"])
    assert data["journal"][0]["state"] == "INTERRUPTED"
    assert _rows() == before


def test_an_agent_that_does_not_answer_is_a_sentence(cast: Cast) -> None:
    job = job_in(Status.ORPHANED, cast.site)
    code, out, _ = run("hosting_job", "resolve", job.code)
    assert code == 2
    assert f"The agent of {cast.server} does not answer" in out


@pytest.mark.parametrize(
    ("outcome", "status", "line"),
    [
        ("RESOLVED", "RESOLVED", "resolved; its site is open again"),
        ("FAILED", "FAILED", "failed; its site is open again"),
        ("RETRY", "QUEUED", "queued; no live worker"),
    ],
)
def test_an_orphan_is_decided_with_a_reason(cast: Cast, outcome: str, status: str, line: str) -> None:
    job = job_in(Status.ORPHANED, cast.site)
    assert run("hosting_job", "resolve", job.code, "--outcome", outcome)[0] == 2
    assert Job.objects.get().status == Status.ORPHANED
    code, out, _ = run("hosting_job", "resolve", job.code, "--outcome", outcome, *WHY)
    assert (code, out) == (0, f"{job.code}: {line}\n")
    assert Job.objects.get().status == status
    assert AuditEntry.objects.latest("sequence").reason == "because"


def test_only_staff_looks_at_evidence_and_resolves(cast: Cast) -> None:
    job = job_in(Status.ORPHANED, cast.site)
    for arguments in ((), ("--outcome", "RESOLVED", *WHY), ("--outcome", "RETRY", *WHY)):
        for user in (cast.owner, cast.viewer, cast.stranger):
            assert run("hosting_job", "resolve", job.code, *arguments, "--as", user.username)[0] == 1
    assert run("hosting_job", "resolve", job.code, "--as", cast.onlooker.username)[0] == 2
    onlooker = ("--as", cast.onlooker.username)
    assert run("hosting_job", "resolve", job.code, "--outcome", "RESOLVED", *WHY, *onlooker)[0] == 1
    assert Job.objects.get().status == Status.ORPHANED


def test_what_waits_for_nobody_has_nothing_to_decide(cast: Cast) -> None:
    job = job_in(Status.SUCCESS, cast.site)
    code, out, _ = run("hosting_job", "resolve", job.code)
    assert code == 1
    assert "There is nothing to decide" in out
    assert run("hosting_job", "resolve", job.code, "--outcome", "RESOLVED", *WHY)[0] == 1


@pytest.mark.parametrize("status", [status for status in WAYS if status not in ("ORPHANED", "FAILED")])
@pytest.mark.parametrize("outcome", ["RESOLVED", "FAILED"])
def test_a_job_that_waits_for_nobody_is_not_resolved(cast: Cast, status: Status, outcome: str) -> None:
    """Least of all one that a worker holds: its site would be open while the work goes on."""
    job = job_in(status, cast.site)
    before = _rows()
    code, _, err = run("hosting_job", "resolve", job.code, "--outcome", outcome, *WHY)
    assert code == 1
    assert f"{job.code} is {status.label}; it cannot be resolved as {outcome}." in err
    assert _rows() == before

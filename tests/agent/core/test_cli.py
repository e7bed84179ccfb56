"""The command as a person runs it: output, errors in one line, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.declarations.table import DECLARATIONS
from tests.agent.core.running import KEY, REPOSITORY, RunningAgent, new_id, write_policy


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def refused(code: int, *arguments: object) -> str:
    """Run, expect the exit code and one line of error, and give it."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("hosting-agent: ")
    return done.stderr


def test_actions_lists_every_declaration() -> None:
    done = run("actions", "--json")
    described = json.loads(done.stdout)
    assert done.returncode == 0
    assert [action["action"] for action in described] == list(DECLARATIONS)
    assert "backup.create_backup  lock=exclusive" in run("actions").stdout


def test_check_says_what_it_read_and_no_secrets(folder: Path) -> None:
    done = run("check", "--policy", write_policy(folder, allowed_uids=[33, 34]))
    assert (done.returncode, done.stderr) == (0, "")
    assert "server: web1\n" in done.stdout
    assert "allowed_uids: 33, 34\n" in done.stdout
    assert "keys: panel-1\n" in done.stdout
    assert KEY.decode() not in done.stdout
    assert repr(KEY)[3:20] not in done.stdout


def test_check_says_no_where_a_folder_is_missing(folder: Path) -> None:
    policy = write_policy(folder)
    (folder / "archive").rmdir()
    done = run("check", "--policy", policy)
    assert done.returncode == 1
    assert done.stderr == f"hosting-agent: stores.archive: there is no folder {folder}/archive\n"


@pytest.mark.parametrize("command", ["serve", "check", "ping", "journal"])
def test_a_bad_policy_is_one_line_and_code_2(folder: Path, command: str) -> None:
    policy = write_policy(folder, colour="blue")
    assert "colour: unknown key" in refused(2, command, "--policy", policy)
    assert "No such file" in refused(2, command, "--policy", folder / "none.toml")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("dance",),
        ("serve",),
        ("journal", "--policy", "x", "--limit", "0"),
        ("journal", "--policy", "x", "--job", "7"),
    ],
)
def test_bad_usage_is_code_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: hosting-agent" in done.stderr


@pytest.mark.parametrize("command", ["serve", "check", "actions", "ping", "journal"])
def test_every_command_has_help(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"usage: hosting-agent {command}" in done.stdout


def test_ping_answers_of_a_running_agent(agent: RunningAgent) -> None:
    done = run("ping", "--policy", agent.policy_file)
    assert done.returncode == 0
    assert done.stdout.startswith("web1 answers, version ")
    assert json.loads(run("ping", "--policy", agent.policy_file, "--json").stdout)["server"] == "web1"


def test_ping_without_an_agent_is_no(folder: Path) -> None:
    assert "no agent answers on" in refused(1, "ping", "--policy", write_policy(folder))


def test_journal_shows_what_was_executed(agent: RunningAgent) -> None:
    identity = new_id()
    agent.ask("sample.work", {"site_id": 7}, id=identity, lock="exclusive")
    agent.ask("sample.fail", {"way": "failed"})
    latest = run("journal", "--policy", agent.policy_file, "--limit", 1)
    assert "FAILED" in latest.stdout
    assert latest.stdout.count("\n") == 1
    of_job = run("journal", "--policy", agent.policy_file, "--job", identity.partition(":")[0], "--json")
    (entry,) = json.loads(of_job.stdout)
    assert (entry["id"], entry["state"], of_job.returncode) == (identity, "SUCCEEDED", 0)


def test_journal_of_an_unknown_job_is_no(agent: RunningAgent) -> None:
    job = new_id().partition(":")[0]
    assert f"nothing of job {job}" in refused(1, "journal", "--policy", agent.policy_file, "--job", job)


def test_journal_of_an_agent_that_never_ran_is_code_2(folder: Path) -> None:
    assert "there is no journal" in refused(2, "journal", "--policy", write_policy(folder))

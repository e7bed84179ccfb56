"""The listening process: its socket, its peers, its end."""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent.exceptions import UnsignedRefusal
from agent.protocol import parse_answer, sign
from tests.agent.core.running import (
    KEY,
    REPOSITORY,
    RunningAgent,
    children,
    make_request,
    wait_until,
    write_policy,
)

PANEL_UID, PANEL_GID, STRANGER_UID = 23456, 23456, 23457
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes other users")


def serve(policy_file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent", "serve", "--policy", str(policy_file)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def ask_as(uid: int, agent: RunningAgent) -> int:
    """Ping as another user; give 0 for an answer, 1 for a refusal of the peer, 2 for anything else."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            os.setgroups([])
            os.setgid(PANEL_GID)
            os.setuid(uid)
            code = _ask(agent)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _ask(agent: RunningAgent) -> int:
    request = make_request("agent.ping")
    with agent.connect() as client:
        # It may have refused and left before it has heard all.
        with suppress(BrokenPipeError):
            client.send(sign(request, KEY))
        try:
            return 0 if parse_answer(client.read_line(), request, KEY).kind == "result" else 2
        except UnsignedRefusal as error:
            return 1 if error.refusal_code == "peer_refused" else 2


@needs_root
def test_only_allowed_users_are_answered(start_agent: Callable[..., RunningAgent], folder: Path) -> None:
    folder.chmod(0o755)
    agent = start_agent(allowed_uids=[PANEL_UID], socket_group=PANEL_GID)
    assert ask_as(PANEL_UID, agent) == 0
    assert ask_as(STRANGER_UID, agent) == 1


def test_the_socket_is_closed_to_others(agent: RunningAgent) -> None:
    assert stat.S_IMODE(agent.policy.socket.stat().st_mode) == 0o660


def test_what_the_agent_remembers_is_closed_to_others(agent: RunningAgent) -> None:
    agent.ask("sample.work", {"site_id": 7}, lock="exclusive")
    paths = [agent.policy.state_dir, *agent.policy.state_dir.iterdir(), *agent.policy.lock_dir.iterdir()]
    assert [path.name for path in paths if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("name", ["state", "lock"])
def test_a_folder_that_others_may_fill_is_refused(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name).chmod(0o777)
    refused = serve(write_policy(folder))
    assert refused.returncode == 1
    assert f"{folder / name} must be the agent's own" in refused.stderr


def test_sigterm_ends_an_idle_agent_and_removes_the_socket(agent: RunningAgent) -> None:
    with agent.connect() as client:
        client.ask("agent.ping")
        assert agent.stop() == 0
        assert client.read_line() == b""
    assert not agent.policy.socket.exists()


def test_sigterm_waits_for_what_runs(start_agent: Callable[..., RunningAgent]) -> None:
    agent = start_agent(grace_seconds=10)
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 700}, lock="exclusive")
        agent.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not agent.policy.socket.exists())
        assert list(client.answers(request, sequence=1))[-1].kind == "result"
        assert agent.process.wait(5) == 0


def test_sigterm_waits_no_longer_than_the_grace_and_says_what_it_leaves(agent: RunningAgent) -> None:
    with agent.connect() as client:
        request = client.begin("sample.work", {"site_id": 7, "milliseconds": 2000}, lock="exclusive")
        assert agent.stop() == 0
        assert "1 connections whose operations still run" in agent.log.read_text()
        assert list(client.answers(request, sequence=1))[-1].kind == "result"


def test_a_stale_socket_is_replaced(agent: RunningAgent) -> None:
    agent.kill_all()
    assert agent.policy.socket.exists()
    agent.start()
    assert agent.ask("agent.ping").kind == "result"


def test_a_live_agent_is_not_pushed_aside(agent: RunningAgent) -> None:
    second = serve(agent.policy_file)
    assert second.returncode == 1
    assert second.stderr == f"hosting-agent: another agent listens on {agent.policy.socket}\n"
    assert agent.ask("agent.ping").kind == "result"


def test_another_programs_live_socket_is_not_pushed_aside(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(folder / "agent.sock"))
        other.listen()
        refused = serve(write_policy(folder))
    assert refused.returncode == 1
    assert "something listens on" in refused.stderr


def test_a_file_in_place_of_the_socket_is_left_alone(folder: Path) -> None:
    (folder / "agent.sock").write_text("precious")
    refused = serve(write_policy(folder))
    assert refused.returncode == 1
    assert "is not a socket" in refused.stderr
    assert (folder / "agent.sock").read_text() == "precious"


def test_connections_leave_no_processes_behind(agent: RunningAgent) -> None:
    for _ in range(5):
        agent.ask("sample.work", {"site_id": 7}, lock="exclusive")
    wait_until(lambda: children(agent.process.pid) == [])

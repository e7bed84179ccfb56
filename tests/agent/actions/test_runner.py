"""The one place that starts processes: what tools get, and what is told of their ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent import runner
from agent.declarations.schema import Lock
from agent.exceptions import ActionFailed, SiteBusy
from agent.owner import Owner
from agent.runner import Finished, Tool, call_as, run, start_child, tool_path
from agent.site_lock import take_site_lock

NOBODY = Owner(23_456, 23_457)


def shell(script: str, owner: Owner | None = None) -> Finished:
    return run(["sh", "-c", script], owner=owner)


def test_a_tool_gets_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHP_SECRET", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    lines = set(run(["env"]).stdout.decode().splitlines())
    assert lines == {f"{name}={value}" for name, value in runner.ENVIRONMENT.items()}
    assert "TZ=UTC" in lines and "LANG=C.UTF-8" in lines


def test_a_tool_works_in_the_root_folder_without_input_or_an_open_umask() -> None:
    assert shell("pwd; umask; cat; readlink /proc/self/fd/0").stdout == b"/\n0077\n/dev/null\n"


def test_a_tool_inherits_no_descriptor_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w"):
        listed = shell("readlink /proc/$$/fd/*").stdout.decode().splitlines()
    assert not any("secret" in target for target in listed)
    assert len(listed) == 3 + len(inheritable())


def inheritable() -> list[int]:
    """Give what whoever started these tests left open for all that they start."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in numbers if number > 2 and is_open(number) and os.get_inheritable(number)]


def is_open(number: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


def test_a_tool_runs_as_its_owner_and_in_no_other_group() -> None:
    assert shell("id -u; id -g; id -G", NOBODY).stdout == b"23456\n23457\n23457\n"


def test_arguments_are_bytes_and_reach_the_tool_as_they_are() -> None:
    argument = b"a b\n'\"$(id)\xff*"
    assert run(["printf", "%s", argument]).stdout == argument


def test_an_exit_code_is_told_by_name_with_what_the_tool_said() -> None:
    with pytest.raises(ActionFailed, match=r"^sh ended with code 3: out of paper$"):
        shell("echo out of paper >&2; exit 3").require()
    assert shell("exit 3").require(0, 3).code == 3


def test_a_signal_that_ended_a_tool_is_named() -> None:
    with pytest.raises(ActionFailed, match=r"^sh was ended by SIGKILL$"):
        shell("kill -KILL $$").require()


def test_of_much_that_a_tool_said_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LONGEST_STDERR", 1000)
    said = shell("yes warning | head -n 100000 >&2; echo the reason >&2; exit 1")
    assert (len(said.stderr), said.is_stderr_cut) == (1000, True)
    with pytest.raises(ActionFailed, match=r"the reason$") as failure:
        said.require()
    assert len(str(failure.value)) < 1600
    assert not shell("echo short >&2").is_stderr_cut


def test_a_tool_that_prints_too_much_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LONGEST_OUTPUT", 1000)
    with pytest.raises(ActionFailed, match="yes printed more than 1000 bytes"):
        run(["yes"])


def test_a_tool_is_found_in_the_system_s_folders_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tar").write_text("#!/bin/sh\n")
    (tmp_path / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tool_path("tar") in ("/usr/bin/tar", "/bin/tar")
    with pytest.raises(ActionFailed, match="the tool no-such-tool is not installed on this server"):
        run(["no-such-tool"])


def test_call_as_runs_as_the_owner_for_good() -> None:
    assert call_as(NOBODY, who) == [[23456] * 3, [23457] * 3, [23457]]
    assert call_as(None, who)[0] == [0, 0, 0]
    assert os.geteuid() == 0


def who() -> list[list[int]]:
    with_root_refused = os.getresuid()[0] == 0 or not may_become_root()
    assert with_root_refused
    return [list(os.getresuid()), list(os.getresgid()), sorted({*os.getgroups(), os.getegid()})]


def may_become_root() -> bool:
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def test_call_as_tells_what_went_wrong() -> None:
    with pytest.raises(ActionFailed, match=r"^listdir: .*Permission denied: '/root'"):
        call_as(NOBODY, os.listdir, "/root")
    with pytest.raises(ActionFailed, match=r"^kill_oneself was ended by SIGKILL$"):
        call_as(None, kill_oneself)
    with pytest.raises(ActionFailed, match=r"^raise_unexpected broke off with code 1$"):
        call_as(None, raise_unexpected)


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raise_unexpected() -> None:
    raise LookupError("not of the kind that is passed on")


def test_call_as_passes_large_answers() -> None:
    assert len(call_as(NOBODY, "x".__mul__, 5_000_000)) == 5_000_000


def test_a_tool_that_outlives_its_parent_keeps_the_site_locked(tmp_path: Path) -> None:
    """The operation's process takes the lock, starts a tool, and is killed alone."""
    told, ready = os.pipe()

    def operate() -> None:
        take_site_lock(tmp_path, 1, Lock.MUTATING)
        tool = Tool(["sleep", "60"])
        os.write(ready, f"{tool.process.pid}\n".encode())
        time.sleep(60)

    operation = start_child(operate)
    survivor = int(os.read(told, 100))
    os.kill(operation, signal.SIGKILL)
    os.waitpid(operation, 0)
    with pytest.raises(SiteBusy):
        take_site_lock(tmp_path, 1, Lock.SHARED)
    assert os.getpgid(survivor) == operation
    os.killpg(operation, signal.SIGKILL)
    until_free(tmp_path)
    os.close(told)
    os.close(ready)


def until_free(lock_dir: Path) -> None:
    ends = time.monotonic() + 10
    while True:
        try:
            held = take_site_lock(lock_dir, 1, Lock.MUTATING)
        except SiteBusy:
            assert time.monotonic() < ends
            time.sleep(0.01)
        else:
            for descriptor in held.descriptors:
                os.close(descriptor)
            return


def test_a_child_never_comes_back_into_the_caller_s_code() -> None:
    script = (
        "from agent.runner import start_child\nimport os, sys\n"
        "pid = start_child(lambda: 1 / 0)\nprint('once', os.waitpid(pid, 0)[1] >> 8)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "once 1\n" and "ZeroDivisionError" in done.stderr

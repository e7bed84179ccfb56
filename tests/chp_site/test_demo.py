"""The demo outlives its worker: to kill it is one of the things that a demo is for."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from chp_site.demo import run
from chp_site.demo.processes import Processes, StartFailed


def _sleeper(processes: Processes) -> "subprocess.Popen[bytes]":
    return processes.start("worker", "-c", "import time; time.sleep(60)")


def test_a_worker_that_has_died_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = iter([None, None])
    monkeypatch.setattr(run, "start_worker", lambda made: _sleeper(made.processes))
    clock = iter(range(0, 1000, 100))
    hands = SimpleNamespace(sleep=lambda seconds: next(turns), monotonic=lambda: next(clock))
    monkeypatch.setattr(run, "time", hands)
    with Processes({}, tmp_path) as processes:
        died = _sleeper(processes)
        died.kill()
        died.wait()
        with pytest.raises(StopIteration):
            run._stay(SimpleNamespace(processes=processes))
        assert processes.running["worker"].poll() is None
        assert processes.running["worker"].pid != died.pid
    assert capsys.readouterr().out.count("another is started") == 1


def test_a_worker_that_dies_at_once_ends_it(tmp_path: Path) -> None:
    """Else a demo that cannot run would say so every second for ever."""
    with Processes({}, tmp_path) as processes:
        processes.start("worker", "-c", "raise SystemExit('no database')").wait()
        with pytest.raises(StartFailed, match=r"worker ended with code 1(.|\n)*no database"):
            run._stay(SimpleNamespace(processes=processes))


def test_without_its_agent_it_ends_and_says_why(tmp_path: Path) -> None:
    with Processes({}, tmp_path) as processes:
        _sleeper(processes)
        processes.start("agent", "-c", "raise SystemExit('no agent today')").wait()
        with pytest.raises(StartFailed, match=r"agent ended with code 1(.|\n)*no agent today"):
            run._stay(SimpleNamespace(processes=processes))

"""hosting-worker --check: for monitoring; it starts nothing."""

import socket
from datetime import timedelta

import pytest

from audit.clock import database_now
from jobs import worker as supervising
from jobs.models import Worker
from tests.commands.running import run, run_json
from tests.jobs.samples import worker

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(supervising.Supervisor, "run")


@pytest.fixture
def here() -> Worker:
    row = worker("w1")
    Worker.objects.update(host=socket.gethostname())
    return row


def test_a_worker_of_this_host_that_polled_lately_is_alive(here: Worker) -> None:
    code, out, err = run("hosting_worker", "--check")
    assert (code, err) == (0, "")
    assert out.startswith(f"w1 on {socket.gethostname()} polled 0 s ago")
    assert "clock" not in out
    code, data = run_json("hosting_worker", "--check", "--name", "w1")
    assert (code, data["alive"], data["workers"][0]["name"]) == (0, True, "w1")


def test_a_worker_of_another_host_counts_by_its_label_only() -> None:
    worker("far")
    assert run("hosting_worker", "--check")[0] == 1
    assert run("hosting_worker", "--check", "--name", "far")[0] == 0


def test_one_that_is_silent_is_told_with_the_time(here: Worker) -> None:
    last = database_now() - timedelta(minutes=10)
    Worker.objects.update(polled_at=last)
    for arguments in ((), ("--name", "w1")):
        code, out, err = run("hosting_worker", "--check", *arguments)
        assert (code, out) == (1, "")
        assert f"has polled since {last:%Y-%m-%d %H:%M:%S} UTC" in err


def test_one_that_was_stopped_is_not_alive(here: Worker) -> None:
    Worker.objects.update(stopped_at=database_now())
    code, _, err = run("hosting_worker", "--check")
    assert code == 1
    assert "w1 was stopped then" in err


def test_none_ever_is_said() -> None:
    code, data = run_json("hosting_worker", "--check", "--name", "w9")
    assert (code, data) == (
        1,
        {"alive": False, "workers": [], "says": ["No worker called w9 has ever polled."]},
    )


@pytest.mark.parametrize(("skew", "said"), [(4.9, ""), (-5.1, "-5.1 s off"), (600.0, "+600.0 s off")])
def test_a_clock_that_is_off_is_said(here: Worker, skew: float, said: str) -> None:
    """Queue F9."""
    Worker.objects.update(clock_skew_seconds=skew)
    code, out, _ = run("hosting_worker", "--check")
    assert code == 0
    assert said in out
    assert ("clock" in out) is bool(said)

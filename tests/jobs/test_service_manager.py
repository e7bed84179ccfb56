"""What a worker tells systemd, and when: read from a socket of the test's own."""

import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import service_manager
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.conditions import SETTINGS as CONDITIONS
from tests.jobs.outage import outage
from tests.jobs.samples import submitted
from tests.processes import StartWorker, status, until

PATIENCE = 60.0


class Manager:
    """The service manager's end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def hear(self, seconds: float) -> list[str]:
        """Give the lines of the next message, none where none comes."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(4096).decode().split("\n")
        except TimeoutError:
            return []

    def wait_for(self, line: str) -> list[str]:
        """Give all lines up to the message that has this one."""
        heard: list[str] = []
        ends = time.monotonic() + PATIENCE
        while line not in heard:
            assert time.monotonic() < ends, f"{line} did not come, but {heard}"
            heard += self.hear(1)
        return heard

    def drain(self) -> None:
        """Forget what has come so far."""
        while self.hear(0.01):
            pass

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    names = {"path": str(tmp_path / "notify"), "abstract": f"@chp-test-{uuid.uuid4().hex}"}
    manager = Manager(names[request.param])
    yield manager
    manager.close()


# --- The words ------------------------------------------------------------------------------------
def test_it_tells_lines_in_one_message(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    assert service_manager.tell("READY=1", "STATUS=Working")
    assert manager.hear(5) == ["READY=1", "STATUS=Working"]


@pytest.mark.parametrize("address", ["", "notify", "vsock:2:1234", "relative/path"])
def test_there_is_nobody_to_tell(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not service_manager.tell("READY=1")


@pytest.mark.parametrize("address", ["/nonexistent/notify", "@chp-nobody-listens", "/" + "x" * 200])
def test_a_manager_that_is_gone_does_no_harm(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not service_manager.tell("READY=1")
    assert "could not be told" in caplog.text


def test_a_manager_that_takes_nothing_holds_nobody_up(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is full: to tell is not worth standing still for."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    assert service_manager.tell("WATCHDOG=1")
    assert not all(service_manager.tell("WATCHDOG=1") for _ in range(100_000))


@pytest.mark.parametrize(("limit", "seconds"), [("20000000", 10.0), ("1", 5e-7), ("180000000", 90.0)])
def test_the_watchdog_is_fed_at_half_of_its_limit(
    limit: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", limit)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert service_manager.watchdog_seconds() == seconds


@pytest.mark.parametrize("limit", ["", "0", "-5", "5s", "1.5", " 7", "٣", "²", "infinity"])
def test_a_wrong_limit_is_none(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", limit)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert service_manager.watchdog_seconds() is None


@pytest.mark.parametrize(("pid", "is_meant"), [("mine", True), ("1", False), ("", False), ("x", False)])
def test_the_watchdog_is_meant_for_one_process(
    pid: str, is_meant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "mine" else pid)
    assert (service_manager.watchdog_seconds() is not None) is is_meant


# --- A worker under it ------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_a_worker_tells_of_its_life(
    cast: Cast, start_worker: StartWorker, manager: Manager, tmp_path: Path
) -> None:
    """Queue C9: ready once all slots are, alive while it asks for work, silent while frozen, stopping."""
    slots = tmp_path / "slots"
    worker = start_worker(
        "--slots",
        "2",
        **CONDITIONS,
        NOTIFY_SOCKET=manager.address,
        WATCHDOG_USEC="2000000",
        TEST_SLOT_SECONDS="4",
        TEST_SLOT_MARK=str(slots),
    )
    manager.wait_for("READY=1")
    assert len(slots.read_text().splitlines()) == 2
    for _ in range(3):
        assert manager.wait_for("WATCHDOG=1") == ["WATCHDOG=1"]
    worker.send_signal(signal.SIGSTOP)
    manager.drain()
    assert manager.hear(3) == []
    worker.send_signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG=1")
    worker.send_signal(signal.SIGTERM)
    heard = manager.wait_for("STOPPING=1")
    assert "READY=1" not in heard
    assert worker.wait(30) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("manager", ["abstract"], indirect=True)
def test_a_worker_that_drains_or_waits_for_the_database_is_alive(
    cast: Cast, start_worker: StartWorker, manager: Manager
) -> None:
    """Queue B9: the watchdog ends no worker for what a new one could not mend, nor one that finishes."""
    more = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "2000000", "TEST_BUSY_SECONDS": "0.5"}
    worker = start_worker("--slots", "1", **CONDITIONS, **more)
    job = submitted(cast.site, payload={"how": "doze", "seconds": 8})
    until(lambda: status(job) == Status.RUNNING)
    worker.send_signal(signal.SIGTERM)
    manager.wait_for("STOPPING=1")
    manager.drain()
    manager.wait_for("WATCHDOG=1")
    with outage():
        time.sleep(1.5)
        manager.drain()
        for _ in range(2):
            manager.wait_for("WATCHDOG=1")
    assert worker.wait(60) == 0
    assert status(job) == Status.SUCCESS

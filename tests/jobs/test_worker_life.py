"""What is known of a worker: that it is there, that it works, and whose clock it goes by."""

import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from audit.clock import database_now
from jobs.models import EventType, Job, JobEvent, Worker
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs import marks
from tests.jobs.conditions import SETTINGS as CONDITIONS
from tests.jobs.outage import outage
from tests.jobs.samples import submitted
from tests.processes import LOG, StartWorker, bodies_below, status, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def payload(mark: Path, seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "mark": str(mark)}


def row() -> Worker:
    return Worker.objects.get()


def silence() -> float:
    """Give for how many seconds the worker has not asked for work."""
    return (database_now() - row().polled_at).total_seconds()


# --- Rows that go away ------------------------------------------------------------------------------
def test_a_worker_whose_row_is_deleted_registers_again(
    cast: Cast, start_worker: StartWorker, mark: Path, tmp_path: Path
) -> None:
    """Queue B12: its job goes on, and it takes the next one."""
    job = submitted(cast.site, payload=payload(mark, 3))
    start_worker("--slots", "1")
    until(lambda: bool(marks.runs(mark)))
    before = row().pk
    Worker.objects.all().delete()
    until(Worker.objects.exists)
    until(lambda: status(job) == Status.SUCCESS)
    Worker.objects.all().delete()
    after = submitted(make_site(cast, "after.test"))
    until(lambda: status(after) == Status.SUCCESS)
    until(Worker.objects.exists)
    assert (row().pk, Job.objects.get(pk=job.pk).epoch) == (before, 1)
    assert "Traceback" not in (tmp_path / LOG).read_text()


# --- Liveness ---------------------------------------------------------------------------------------
def test_a_frozen_worker_is_seen_by_its_silence(cast: Cast, start_worker: StartWorker) -> None:
    """Queue C9: its process exists, and asks for nothing."""
    worker = start_worker("--slots", "1", CHP_HEARTBEAT_SECONDS="1")
    job = submitted(cast.site)
    until(lambda: status(job) == Status.SUCCESS)
    worker.send_signal(signal.SIGSTOP)
    until(lambda: silence() > 5)
    worker.send_signal(signal.SIGCONT)
    until(lambda: silence() < 4)


def test_a_worker_without_its_database_is_seen_by_its_silence(cast: Cast, start_worker: StartWorker) -> None:
    """Queue C9."""
    start_worker("--slots", "1", **CONDITIONS, TEST_BUSY_SECONDS="0.5", CHP_HEARTBEAT_SECONDS="1")
    job = submitted(cast.site)
    until(lambda: status(job) == Status.SUCCESS)
    with outage():
        until(lambda: silence() > 5)
    until(lambda: silence() < 4)


def test_a_worker_whose_slots_do_not_start_is_seen_by_its_silence(
    cast: Cast, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Queue C9, A10: it beats, and could not run anything; when slots start again it works."""
    broken = tmp_path / "broken"
    worker = start_worker("--slots", "1", **CONDITIONS, TEST_SLOT_BROKEN=str(broken))
    warm = submitted(cast.site)
    until(lambda: status(warm) == Status.SUCCESS)
    broken.touch()
    for slot in bodies_below(worker):
        slot.send(signal.SIGKILL)
    until(lambda: silence() > 5)
    job = submitted(make_site(cast, "next.test"))
    broken.unlink()
    until(lambda: status(job) == Status.SUCCESS)
    until(lambda: silence() < 4)


# --- Time -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ahead", [600, -600])
def test_a_worker_whose_clock_is_wrong_goes_by_the_databases(
    cast: Cast, start_worker: StartWorker, mark: Path, tmp_path: Path, ahead: int
) -> None:
    """Queue F9: no false death on either side, nothing starts before its time, and it says what is wrong."""
    due = database_now() + timedelta(seconds=8)
    later = submitted(cast.site, payload=payload(mark, 0), scheduled_at=due)
    change = submitted(make_site(cast, "change.test"), "SAMPLE_CHANGE", payload(mark, 8))
    start_worker("--name", "wrong", "--slots", "2", **CONDITIONS, TEST_CLOCK_AHEAD=str(ahead))
    until(lambda: status(change) == Status.RUNNING)
    start_worker("--name", "right", "--slots", "1")
    until(lambda: {status(later), status(change)} == {Status.SUCCESS})
    assert _claimed_at(later) >= due
    assert Job.objects.get(pk=change.pk).epoch == 1
    wrong = Worker.objects.get(name="wrong")
    assert wrong.clock_skew_seconds == pytest.approx(ahead, abs=60)
    assert "s off the database's" in (tmp_path / LOG).read_text()


def _claimed_at(job: Job) -> datetime:
    return JobEvent.objects.get(job=job, event_type=EventType.CLAIMED).at

"""Stopping a worker: in order, in a hurry, from the terminal, and before it has begun."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.models import EventType, Job, JobEvent, Worker
from jobs.states import HELD, Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs import marks
from tests.jobs.samples import submitted
from tests.processes import StartWorker, bodies_below, status, until

pytestmark = pytest.mark.django_db(transaction=True)
STARTS = 30


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def payload(mark: Path, seconds: float, how: str = "work") -> dict[str, Any]:
    return {"how": how, "seconds": seconds, "mark": str(mark)}


def test_a_worker_runs_what_is_queued_and_leaves_when_told(cast: Cast, start_worker: StartWorker) -> None:
    job = submitted(cast.site)
    worker = start_worker()
    until(lambda: status(job) == Status.SUCCESS)
    slots = bodies_below(worker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert Worker.objects.get().stopped_at is not None
    assert len(slots) == 4
    assert not any(slot.is_alive for slot in slots)


def test_a_drain_finishes_the_running_job_and_takes_no_other(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    running = submitted(cast.site, payload=payload(mark, 2))
    worker = start_worker("--slots", "1")
    until(lambda: bool(marks.runs(mark)))
    waiting = submitted(make_site(cast, "next.test"))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert (status(running), status(waiting)) == (Status.SUCCESS, Status.QUEUED)


def test_a_draining_worker_beats_for_longer_than_silence_may_last(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue H4: another one does not take its job meanwhile."""
    job = submitted(cast.site, "SAMPLE_CHANGE", payload(mark, 8))
    worker = start_worker("--name", "one", "--slots", "1")
    until(lambda: bool(marks.runs(mark)))
    start_worker("--name", "two", "--slots", "1")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert status(job) == Status.SUCCESS


def test_a_slot_that_dies_while_its_worker_drains_is_not_replaced(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    job = submitted(cast.site, payload=payload(mark, 60))
    worker = start_worker("--slots", "1")
    until(lambda: bool(marks.slots(mark)))
    worker.send_signal(signal.SIGTERM)
    os.kill(marks.slots(mark)[0], signal.SIGKILL)
    assert worker.wait(60) == 0
    assert (status(job), Job.objects.get(pk=job.pk).attempt) == (Status.QUEUED, 1)


@pytest.mark.parametrize("how", ["work", "deaf"])
def test_a_second_signal_stops_at_once_and_costs_no_attempt(
    cast: Cast, start_worker: StartWorker, mark: Path, how: str
) -> None:
    """Queue H4, H8."""
    job = submitted(cast.site, payload=payload(mark, 60, how))
    worker = start_worker("--slots", "1")
    until(lambda: bool(marks.slots(mark)))
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 1
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Status.QUEUED, 0)
    assert not marks.is_alive(marks.slots(mark)[0])


def test_restarts_in_mid_job_spend_no_attempt(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue H4: more of them than the job has attempts; its history shows each."""
    job = submitted(cast.site, payload=payload(mark, 60))
    for number in range(4):
        worker = start_worker("--slots", "1")
        until(lambda number=number: len(marks.runs(mark)) == number + 1)
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 1
    job.refresh_from_db()
    assert (job.status, job.attempt, job.epoch, job.max_attempts) == (Status.QUEUED, 0, 4, 3)
    lost = JobEvent.objects.filter(job=job, event_type=EventType.HEARTBEAT_LOST)
    assert ["second signal" in event.message for event in lost] == [True] * 4


def test_ctrl_c_at_the_terminal_lets_the_job_end(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue H8: the terminal signals the whole group; the slots are in none of its."""
    job = submitted(cast.site, payload=payload(mark, 2))
    worker = start_worker("--slots", "1")
    until(lambda: bool(marks.runs(mark)))
    os.killpg(worker.pid, signal.SIGINT)
    assert worker.wait(30) == 0
    job.refresh_from_db()
    assert (job.status, job.epoch) == (Status.SUCCESS, 1)


def test_a_worker_can_be_stopped_at_any_moment_of_its_start(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue H7: before it listens the signal ends it, afterwards it leaves in order."""
    jobs = [submitted(make_site(cast, f"s{n}.test"), payload=payload(mark, 0.1)) for n in range(STARTS)]
    codes = []
    for number in range(STARTS):
        # From nothing at all to well into the work, whatever the machine's pace.
        worker = start_worker("--slots", "1")
        time.sleep(0.08 * number)
        worker.send_signal(signal.SIGTERM)
        codes.append(worker.wait(30))
    assert set(codes) <= {0, -signal.SIGTERM}
    assert not Job.objects.filter(status__in=HELD).exists()
    assert not Worker.objects.filter(stopped_at=None).exists()
    assert {status(job) for job in jobs} <= {Status.SUCCESS, Status.QUEUED}
    assert set(Job.objects.values_list("attempt", flat=True)) <= {0, 1}

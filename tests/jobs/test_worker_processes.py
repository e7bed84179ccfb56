"""Real worker processes: kill -9, drain, replaced slots, two workers, a database that is busy."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.models import EventType, Job, JobEvent, Worker
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import submitted
from tests.processes import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)


def _until(is_so: Callable[[], bool], seconds: float = 40) -> None:
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            states = list(Job.objects.values_list("job_type", "status", "error_message"))
            raise AssertionError(f"not so within {seconds} s; jobs: {states}")
        time.sleep(0.05)


def _status(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def test_a_worker_runs_what_is_queued_and_leaves_when_told(cast: Cast, start_worker: StartWorker) -> None:
    job = submitted(cast.site)
    worker = start_worker()
    _until(lambda: _status(job) == Status.SUCCESS)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0
    row = Worker.objects.get()
    assert row.stopped_at is not None


def test_a_drain_finishes_the_running_job_and_takes_no_other(cast: Cast, start_worker: StartWorker) -> None:
    running = submitted(cast.site, payload={"seconds": 2})
    worker = start_worker("--slots", "1")
    _until(lambda: _status(running) == Status.RUNNING)
    waiting = submitted(make_site(cast, "next.test"))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0
    assert (_status(running), _status(waiting)) == (Status.SUCCESS, Status.QUEUED)


def test_a_second_signal_stops_at_once_and_costs_no_attempt(cast: Cast, start_worker: StartWorker) -> None:
    """Queue H4, H8."""
    job = submitted(cast.site, payload={"seconds": 60})
    worker = start_worker("--slots", "1")
    _until(lambda: _status(job) == Status.RUNNING)
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 1
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Status.QUEUED, 0)


def test_after_kill_9_a_new_worker_repeats_what_may_be_repeated(
    cast: Cast, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Queue B1, B3: the name is reused, the identity is not."""
    mark = tmp_path / "runs"
    job = submitted(cast.site, payload={"seconds": 1.5, "mark": str(mark)})
    change = submitted(make_site(cast, "change.test"), "SAMPLE_CHANGE", {"seconds": 30, "mark": str(mark)})
    first = start_worker("--name", "same")
    _until(lambda: mark.exists() and len(mark.read_text().splitlines()) == 2)
    first.kill()
    start_worker("--name", "same")
    _until(lambda: _status(job) == Status.SUCCESS and _status(change) == Status.ORPHANED)
    runs = Counter(line.split()[0] for line in mark.read_text().splitlines())
    assert runs == {job.code: 2, change.code: 1}
    assert Worker.objects.filter(name="same").count() == 2


def test_a_slot_leaves_when_its_supervisor_is_killed(
    cast: Cast, start_worker: StartWorker, tmp_path: Path
) -> None:
    mark = tmp_path / "runs"
    submitted(cast.site, payload={"seconds": 60, "mark": str(mark)})
    worker = start_worker()
    _until(lambda: mark.exists() and mark.read_text().endswith("\n"))
    slot = int(mark.read_text().split()[2])
    worker.kill()
    _until(lambda: not _is_alive(slot), 15)


def test_a_slot_that_dies_is_replaced_and_its_job_stops_at_the_last_attempt(
    cast: Cast, start_worker: StartWorker
) -> None:
    """Queue A10 and B4."""
    deadly = submitted(cast.site, payload={"how": "exit"})
    start_worker("--slots", "1")
    _until(lambda: _status(deadly) == Status.FAILED)
    assert JobEvent.objects.filter(job=deadly, event_type=EventType.CLAIMED).count() == 3
    after = submitted(make_site(cast, "after.test"))
    _until(lambda: _status(after) == Status.SUCCESS)


def test_two_workers_share_the_queue_and_each_job_runs_once(
    cast: Cast, start_worker: StartWorker, tmp_path: Path
) -> None:
    mark = tmp_path / "runs"
    jobs = [
        submitted(make_site(cast, f"s{number}.test"), payload={"mark": str(mark)}) for number in range(20)
    ]
    start_worker("--name", "one")
    start_worker("--name", "two")
    _until(lambda: Job.objects.filter(status=Status.SUCCESS).count() == len(jobs))
    runs = Counter(line.split()[0] for line in mark.read_text().splitlines())
    assert set(runs.values()) == {1}


def test_a_long_job_that_beats_is_never_handed_out_again(
    cast: Cast, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Queue A2: the job is much longer than the limit of silence."""
    mark = tmp_path / "runs"
    job = submitted(cast.site, payload={"seconds": 5, "mark": str(mark)})
    start_worker("--name", "one")
    start_worker("--name", "two")
    _until(lambda: _status(job) == Status.SUCCESS)
    assert len(mark.read_text().splitlines()) == 1


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

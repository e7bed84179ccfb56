"""Starting the product's own processes in tests, against the test's database; ended by their handles."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Job
from tests.engine.body import Body, descendants

ROOT = Path(__file__).resolve().parent.parent
StartWorker = Callable[..., "subprocess.Popen[bytes]"]
# Short enough for a test, long enough for a busy machine: silence of 4 s is a lost worker.
QUICK = {
    "CHP_HEARTBEAT_SECONDS": "0.5",
    "CHP_STALE_BEATS": "8",
    "CHP_POLL_SECONDS": "0.1",
    "CHP_BUSY_DELAY_SECONDS": "0.5",
    "CHP_DEADLINE_GRACE_SECONDS": "0.5",
    "MAX_WORKERS": "4",
}
# In the test's own folder: what the started workers log.
LOG = "worker.log"


@pytest.fixture
def start_worker(
    process_environment: dict[str, str], tmp_path: Path, settings: Settings
) -> Iterator[StartWorker]:
    """Give a function that starts a worker with the sample operations and gives its process.

    Its keywords are variables of the environment. Each worker leads a process group of its own.
    """
    started: list[subprocess.Popen[bytes]] = []
    # The limit of silence travels with the job.
    settings.CHP_HEARTBEAT_SECONDS, settings.CHP_STALE_BEATS = 0.5, 8
    environment = {**process_environment, **QUICK, "DJANGO_SETTINGS_MODULE": "tests.worker_settings"}

    def start(*arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "hosting_worker", *arguments],
                cwd=ROOT,
                env={**environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        end_with_children(process)


def end_with_children(process: "subprocess.Popen[bytes]") -> None:
    """End a process that a test started, and everything below it."""
    below = bodies_below(process)
    if process.poll() is None:
        process.kill()
    process.wait()
    for body in below:
        body.send(signal.SIGKILL)
    for body in below:
        body.wait(10)


def bodies_below(process: "subprocess.Popen[bytes]") -> list[Body]:
    """Give the processes below one that a test started: a worker's slots, and what they started."""
    found = []
    for pid in descendants(process.pid) if process.poll() is None else ():
        with suppress(ProcessLookupError):
            found.append(Body(pid))
    return found


def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until it is so. The limit is generous: it only ends a test that has failed."""
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            jobs = list(Job.objects.values_list("job_type", "status", "attempt", "error_message"))
            raise AssertionError(f"not so within {seconds} s; jobs: {jobs}")
        time.sleep(0.05)


def status(job: Job) -> str:
    """Give the state that is in the job's row now."""
    return str(Job.objects.values_list("status", flat=True).get(pk=job.pk))

"""Starting the product's own processes in tests, against the test's database; ended by their handles."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

ROOT = Path(__file__).resolve().parent.parent
StartWorker = Callable[..., "subprocess.Popen[bytes]"]
# Short enough for a test, long enough for a busy machine: silence of 2.5 s is a lost worker.
QUICK = {
    "CHP_HEARTBEAT_SECONDS": "0.5",
    "CHP_STALE_BEATS": "5",
    "CHP_POLL_SECONDS": "0.1",
    "CHP_BUSY_DELAY_SECONDS": "0.5",
    "MAX_WORKERS": "4",
}


@pytest.fixture
def start_worker(
    process_environment: dict[str, str], tmp_path: Path, settings: Settings
) -> Iterator[StartWorker]:
    """Give a function that starts a worker with the sample operations and gives its process."""
    started: list[subprocess.Popen[bytes]] = []
    settings.CHP_HEARTBEAT_SECONDS = 0.5  # the limit of silence travels with the job
    environment = {**process_environment, **QUICK, "DJANGO_SETTINGS_MODULE": "tests.worker_settings"}

    def start(*arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "hosting_worker", *arguments],
                cwd=ROOT,
                env={**environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()

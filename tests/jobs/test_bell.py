"""The bell: what a listener hears of other people's transactions, alike on both databases."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.db import transaction

from audit.clock import database_now
from jobs import bell
from jobs.listener import Listener, new_listener
from jobs.models import Pause, PauseScope, Worker
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import submitted, worker
from tests.processes import StartWorker, status, until

pytestmark = pytest.mark.django_db(transaction=True)
# Neither a poll nor a beat comes to a job's help while a test waits.
STILL = {"CHP_POLL_SECONDS": "30", "CHP_HEARTBEAT_SECONDS": "60"}


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Give a listener that has heard all that was before."""
    found = new_listener()
    while found.heard():
        time.sleep(0.05)
    yield found
    found.close()


def hears(listener: Listener) -> bool:
    """Whether it hears within a moment."""
    ends = time.monotonic() + 2
    while time.monotonic() < ends:
        if listener.heard():
            return True
        time.sleep(0.02)
    return False


def test_it_rings_when_the_transaction_commits(cast: Cast, listener: Listener) -> None:
    with transaction.atomic():
        worker()
        bell.ring()
        assert not listener.heard()
    assert hears(listener)


def test_it_does_not_ring_when_the_transaction_is_rolled_back(cast: Cast, listener: Listener) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        worker()
        bell.ring()
        raise ZeroDivisionError
    assert not Worker.objects.exists()
    assert not hears(listener)


def test_a_submitted_job_rings(cast: Cast, listener: Listener) -> None:
    submitted(cast.site)
    assert hears(listener)


def test_silence_is_not_heard(cast: Cast, listener: Listener) -> None:
    """Reading alone rings for nobody."""
    assert not Worker.objects.exists()
    assert not hears(listener)


def test_another_process_is_heard(
    cast: Cast, listener: Listener, process_environment: dict[str, str]
) -> None:
    code = (
        "import django; django.setup(); from django.db import transaction; from jobs import bell;"
        "from jobs.models import UsedKey; from audit.clock import database_now\n"
        "with transaction.atomic():\n"
        "    UsedKey.objects.create(key='k', fingerprint='f', job_code='JOB-1', pruned_at=database_now())\n"
        "    bell.ring()"
    )
    subprocess.run([sys.executable, "-c", code], env=process_environment, check=True, timeout=60)
    assert hears(listener)


# --- Worker processes that would otherwise sleep ---------------------------------------------------
def test_an_idle_worker_starts_new_work_long_before_its_next_poll(
    cast: Cast, start_worker: StartWorker
) -> None:
    """Queue C6."""
    start_worker("--slots", "1", **STILL)
    for number in range(3):
        job = submitted(make_site(cast, f"s{number}.test"))
        until(lambda job=job: status(job) == Status.SUCCESS, 20 if number else 60)
        # Awake for a moment after each job, and then asleep.
        time.sleep(1)


def test_a_worker_wakes_when_its_work_is_let_go(cast: Cast, start_worker: StartWorker) -> None:
    """Queue C6: not only by a new job; here by the end of what kept the site closed."""
    first = submitted(cast.site, payload={"seconds": 2})
    second = submitted(cast.site)
    start_worker("--name", "one", "--slots", "1", **STILL)
    until(lambda: status(first) == Status.RUNNING)
    start_worker("--name", "two", "--slots", "1", **STILL)
    until(lambda: Worker.objects.count() == 2)
    until(lambda: status(second) == Status.SUCCESS, 20)


def test_polling_alone_is_enough(
    cast: Cast, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue C7: nobody rings. (On SQLite the file itself tells.)"""
    monkeypatch.setattr(bell, "ring", lambda: None)
    start_worker("--slots", "1", CHP_POLL_SECONDS="2")
    for number in range(3):
        job = submitted(make_site(cast, f"s{number}.test"))
        until(lambda job=job: status(job) == Status.SUCCESS)


def test_a_pause_that_ended_without_a_bell_holds_nothing_back(cast: Cast, start_worker: StartWorker) -> None:
    """Queue C7: the notifying step failed; the queue is not idle until a person stirs it."""
    values = {"scope": PauseScope.ALL, "target": "all", "paused_by": "a test", "reason": "a test"}
    pause = Pause.objects.create(**values, since=database_now())
    job = submitted(cast.site)
    start_worker("--slots", "1", CHP_POLL_SECONDS="1")
    until(Worker.objects.exists)
    pause.delete()
    until(lambda: status(job) == Status.SUCCESS)

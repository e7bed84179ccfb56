"""Worker processes whose database goes away and comes back, or loses their sessions."""

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs.database import insist
from jobs.models import EventType, Job, JobEvent, JobPolicy, Worker
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs import marks
from tests.jobs.conditions import SETTINGS as CONDITIONS
from tests.jobs.outage import cut_sessions, only_readable, outage
from tests.jobs.samples import submitted
from tests.processes import LOG, StartWorker, status, until

pytestmark = pytest.mark.django_db(transaction=True)
# SQLite waits for a lock only so long that a worker hears of the trouble within the test.
IMPATIENT = {**CONDITIONS, "TEST_BUSY_SECONDS": "0.5"}
# By the running database: what is logged of a wake-up session that ends, and of each that is made.
LOST, MADE = {
    "postgresql": ("the wake-up connection is lost", "listening for new work"),
    "sqlite": ("", ""),
}[connection.vendor]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def payload(mark: Path, seconds: float, how: str = "work") -> dict[str, Any]:
    return {"how": how, "seconds": seconds, "mark": str(mark)}


def row() -> Worker:
    return Worker.objects.get()


# --- Sessions that end ------------------------------------------------------------------------------
def test_an_idle_worker_outlives_its_session(cast: Cast, start_worker: StartWorker) -> None:
    """Queue C1: the next job runs, in the same process, and does not wait for the next poll."""
    worker = start_worker("--slots", "1", CHP_POLL_SECONDS="30")
    warm = submitted(cast.site)
    until(lambda: status(warm) == Status.SUCCESS)
    cut_sessions()
    job = submitted(make_site(cast, "next.test"))
    until(lambda: status(job) == Status.SUCCESS, 25)
    assert (worker.poll(), row().pid) == (None, worker.pid)


def test_a_session_that_ends_frees_no_claim(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue A7: the claim lives in the row."""
    job = submitted(cast.site, payload=payload(mark, 4))
    workers = [start_worker("--name", name, "--slots", "1") for name in ("one", "two")]
    until(lambda: bool(marks.runs(mark)))
    for _ in range(8):
        cut_sessions()
        time.sleep(0.7)
    until(lambda: status(job) == Status.SUCCESS)
    assert [worker.poll() for worker in workers] == [None, None]
    job.refresh_from_db()
    assert (job.status, job.epoch, job.attempt) == (Status.SUCCESS, 1, 1)
    assert marks.runs(mark) == [job.code]


def test_a_lost_wake_up_session_comes_back(cast: Cast, start_worker: StartWorker, tmp_path: Path) -> None:
    """Queue C6: polling goes on meanwhile, it is logged, and afterwards work starts at once again."""
    start_worker("--slots", "1", CHP_POLL_SECONDS="12", CHP_HEARTBEAT_SECONDS="60")
    warm = submitted(cast.site)
    until(lambda: status(warm) == Status.SUCCESS)
    cut_sessions(like="%chp_proof%")
    job = submitted(make_site(cast, "next.test"))
    until(lambda: status(job) == Status.SUCCESS)
    log = tmp_path / LOG
    until(lambda: not MADE or log.read_text().count(MADE) == 2)
    assert LOST in log.read_text()
    for number in range(2):
        again = submitted(make_site(cast, f"s{number}.test"))
        until(lambda again=again: status(again) == Status.SUCCESS, 10)


@pytest.mark.parametrize("error", [psycopg.errors.AdminShutdown, psycopg.errors.ReadOnlySqlTransaction])
def test_the_drivers_own_errors_are_trouble_too(error: type[Exception]) -> None:
    """Queue A7, B10: Django does not translate those of a cursor that ends with its session."""
    answers = iter([error("gone"), None])

    def act() -> str:
        if (answer := next(answers)) is not None:
            raise answer
        return "done"

    assert insist(act) == "done"


# --- The database is away ---------------------------------------------------------------------------
@pytest.mark.parametrize("trouble", [outage, only_readable])
def test_an_end_is_recorded_once_the_database_is_back(
    cast: Cast, start_worker: StartWorker, mark: Path, trouble: Callable[[], AbstractContextManager[None]]
) -> None:
    """Queue B9, B10, C12: away while the work ends, and for longer than silence is allowed to last."""
    job = submitted(cast.site, "SAMPLE_CHANGE", payload(mark, 1.5, "doze"))
    worker = start_worker("--slots", "1", **IMPATIENT)
    until(lambda: bool(marks.runs(mark)))
    with trouble():
        until(lambda: marks.is_over(mark))
        time.sleep(6)
    until(lambda: status(job) == Status.SUCCESS)
    job.refresh_from_db()
    assert (job.epoch, job.error_code, job.error_message) == (1, "", "")
    assert not JobEvent.objects.filter(job=job, level="ERROR").exists()
    assert (worker.poll(), row().pid) == (None, worker.pid)


def test_a_deadline_that_passes_meanwhile_does_not_undo_work_that_has_ended(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue B9: "the work ended" and "the end is recorded" are two things."""
    JobPolicy.objects.create(job_type="SAMPLE_CHANGE", timeout_seconds=4)
    job = submitted(cast.site, "SAMPLE_CHANGE", payload(mark, 0.5, "doze"))
    start_worker("--slots", "1", **IMPATIENT, CHP_DEADLINE_GRACE_SECONDS="8")
    until(lambda: bool(marks.runs(mark)))
    with outage():
        until(lambda: marks.is_over(mark))
        time.sleep(14)
    until(lambda: status(job) != Status.RUNNING)
    assert status(job) == Status.SUCCESS


def test_a_worker_that_is_back_first_does_not_take_the_others_for_dead(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue B9: nobody could beat."""
    jobs = [
        submitted(make_site(cast, f"s{n}.test"), "SAMPLE_CHANGE", payload(mark, 15, "doze")) for n in range(3)
    ]
    for number in range(3):
        start_worker("--name", f"w{number}", "--slots", "1", **IMPATIENT)
    until(lambda: len(set(marks.slots(mark))) == 3)
    with outage():
        time.sleep(6)
    until(lambda: Status.RUNNING not in {status(job) for job in jobs})
    assert [status(job) for job in jobs] == [Status.SUCCESS] * 3


def test_a_drain_outlasts_an_outage(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue B9, H4: told to stop while the database is away; the end is recorded and the exit is clean."""
    job = submitted(cast.site, payload=payload(mark, 1.5, "doze"))
    worker = start_worker("--slots", "1", **IMPATIENT)
    until(lambda: bool(marks.runs(mark)))
    with outage():
        worker.send_signal(signal.SIGTERM)
        until(lambda: marks.is_over(mark))
        time.sleep(2)
        assert worker.poll() is None
    assert worker.wait(60) == 0
    assert status(job) == Status.SUCCESS


def test_an_idle_worker_leaves_though_the_database_stays_away(cast: Cast, start_worker: StartWorker) -> None:
    worker = start_worker("--slots", "1", **IMPATIENT)
    warm = submitted(cast.site)
    until(lambda: status(warm) == Status.SUCCESS)
    with outage():
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert row().stopped_at is None


def test_a_worker_starts_though_the_database_is_away(cast: Cast, start_worker: StartWorker) -> None:
    job = submitted(cast.site)
    with outage():
        worker = start_worker("--slots", "1", **IMPATIENT)
        time.sleep(4)
        assert worker.poll() is None
    until(lambda: status(job) == Status.SUCCESS)


def test_beats_go_on_beside_a_long_read_and_many_writes(
    cast: Cast, start_worker: StartWorker, mark: Path, tmp_path: Path
) -> None:
    """Queue I1, K1: an export reads all the time, others submit; beats go on and nobody sees a lock."""
    long = submitted(cast.site, payload=payload(mark, 14))
    Job.objects.filter(pk=long.pk).update(stale_seconds=10)
    for name in ("one", "two"):
        start_worker("--name", name, "--slots", "2")
    until(lambda: bool(marks.runs(mark)))
    with _long_read():
        others = [submitted(make_site(cast, f"s{n}.test"), payload=payload(mark, 0)) for n in range(40)]
        until(lambda: {status(job) for job in (long, *others)} == {Status.SUCCESS})
    assert sorted(marks.runs(mark)) == sorted(job.code for job in (long, *others))
    assert not JobEvent.objects.filter(event_type=EventType.HEARTBEAT_LOST).exists()
    assert "trouble" not in (tmp_path / LOG).read_text()


@contextmanager
def _long_read() -> Iterator[None]:
    values = connection.settings_dict
    if connection.vendor == "postgresql":
        session: Any = psycopg.connect(
            host=values["HOST"], port=values["PORT"], user=values["USER"], dbname=values["NAME"]
        )
    else:
        session = sqlite3.connect(values["NAME"], isolation_level=None)
        session.execute("BEGIN")
    with closing(session):
        session.execute("SELECT * FROM jobs_job").fetchone()
        yield

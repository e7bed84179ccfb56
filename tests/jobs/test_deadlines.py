"""Work that does not stop at its deadline: asked, ended, killed, with all that it started; then its job."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.models import EventType, Job, JobEvent, JobPolicy
from jobs.slot_process import Slot
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs import marks
from tests.jobs.samples import submitted
from tests.processes import StartWorker, status, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def short(cast: Cast) -> None:
    """A second for each job."""
    for job_type in ("SAMPLE", "SAMPLE_CHANGE"):
        JobPolicy.objects.create(job_type=job_type, timeout_seconds=1)


def payload(mark: Path, how: str, seconds: float = 300) -> dict[str, Any]:
    return {"how": how, "seconds": seconds, "mark": str(mark)}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("job_type", "end"), [("SAMPLE", Status.FAILED), ("SAMPLE_CHANGE", Status.ORPHANED)])
def test_work_that_lets_no_signal_through_is_killed(
    cast: Cast, start_worker: StartWorker, mark: Path, job_type: str, end: Status
) -> None:
    """Queue D9: the slot is lost, the truth is told, and the place works on."""
    job = submitted(cast.site, job_type, payload(mark, "deaf"))
    start_worker("--slots", "1")
    until(lambda: status(job) == end)
    assert not marks.is_alive(marks.slots(mark)[0])
    job.refresh_from_db()
    assert (job.error_code, job.epoch) == ("timed_out", 1)
    assert job.error_message.startswith("timed out after 1 s")
    after = submitted(make_site(cast, "after.test"))
    until(lambda: status(after) == Status.SUCCESS)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("how", ["spawn", "spawn_deaf"])
@pytest.mark.parametrize(("job_type", "end"), [("SAMPLE", Status.FAILED), ("SAMPLE_CHANGE", Status.ORPHANED)])
def test_what_a_job_started_is_gone_before_the_job_is_given_up(
    cast: Cast, start_worker: StartWorker, mark: Path, how: str, job_type: str, end: Status
) -> None:
    """Queue B13, D9: also where it ignores the signal that its parent heeds."""
    job = submitted(cast.site, job_type, payload(mark, how))
    start_worker("--slots", "1")
    until(lambda: bool(marks.children(mark)))
    (child,) = marks.children(mark)
    alive_when_given_up = []
    while not alive_when_given_up:
        # Looked at in this order: a child that lives now lived when the state was read.
        given_up, alive = status(job) != Status.RUNNING, marks.is_alive(child)
        alive_when_given_up += [alive] if given_up else []
    assert alive_when_given_up == [False]
    assert (status(job), marks.is_alive(marks.slots(mark)[0])) == (end, False)


def test_what_a_dead_slot_started_is_ended_too(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue A10, B13: the slot is killed, its child would go on."""
    job = submitted(cast.site, "SAMPLE_CHANGE", payload(mark, "spawn_deaf"))
    start_worker("--slots", "1")
    until(lambda: bool(marks.children(mark)))
    subprocess.run(["kill", "-9", str(marks.slots(mark)[0])], check=True)
    until(lambda: status(job) == Status.ORPHANED)
    assert not marks.is_alive(marks.children(mark)[0])


@pytest.mark.usefixtures("short")
def test_a_job_that_stops_by_itself_in_time_costs_no_slot(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue D9: asked first, at its next checkpoint."""
    job = submitted(cast.site, payload=payload(mark, "work"))
    start_worker("--slots", "1", CHP_DEADLINE_GRACE_SECONDS="60")
    until(lambda: status(job) == Status.FAILED)
    told = JobEvent.objects.get(job=job, event_type=EventType.TIMEOUT)
    assert told.message == "timed out after 1 s at working"
    after = submitted(make_site(cast, "after.test"), payload=payload(mark, "work", 0))
    until(lambda: status(after) == Status.SUCCESS)
    assert len(set(marks.slots(mark))) == 1


@pytest.mark.usefixtures("short")
def test_a_hung_job_does_not_hold_up_the_one_beside_it(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue D9."""
    JobPolicy.objects.create(job_type="SAMPLE_LOOK", timeout_seconds=60)
    beside = submitted(make_site(cast, "beside.test"), "SAMPLE_LOOK", payload(mark, "work", 8))
    hung = submitted(cast.site, payload=payload(mark, "deaf"))
    start_worker("--slots", "2")
    until(lambda: {status(beside), status(hung)} == {Status.SUCCESS, Status.FAILED})
    assert Job.objects.get(pk=beside.pk).epoch == 1


class Undying:
    """A process that the kernel does not let go, whatever is sent to it."""

    pid = 2**31 - 1
    returncode = None

    def poll(self) -> None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None:
            raise AssertionError("the supervisor would wait for ever, and beat for nobody")
        raise subprocess.TimeoutExpired("slot", timeout)


def test_a_slot_that_not_even_a_kill_ends_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Queue D9: it hangs in the kernel, for instance on a network file system."""
    process: Any = Undying()
    nothing: Any = None
    Slot(0, process, nothing, nothing).end_group()
    assert "was killed and is not gone yet" in caplog.text

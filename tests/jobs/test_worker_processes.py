"""Real worker processes: kill -9, replaced slots, two workers, brief jobs, cancellation."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from accounts.actor import operator
from jobs import pipeline, queue
from jobs.models import EventType, Job, JobEvent, Worker
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


def working(mark: Path, seconds: float, how: str = "work") -> dict[str, Any]:
    return {"how": how, "seconds": seconds, "mark": str(mark)}


def test_after_kill_9_a_new_worker_repeats_what_may_be_repeated(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue B1, B3: the name is reused, the identity is not."""
    job = submitted(cast.site, payload=working(mark, 1.5))
    change = submitted(make_site(cast, "change.test"), "SAMPLE_CHANGE", working(mark, 30))
    first = start_worker("--name", "same")
    until(lambda: len(marks.runs(mark)) == 2)
    first.kill()
    start_worker("--name", "same")
    until(lambda: status(job) == Status.SUCCESS and status(change) == Status.ORPHANED)
    assert Counter(marks.runs(mark)) == {job.code: 2, change.code: 1}
    assert Worker.objects.filter(name="same").count() == 2


def test_two_workers_of_one_name_are_two(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue B3: the one that lives does not beat for the one that has died."""
    jobs = [submitted(make_site(cast, f"{name}.test"), payload=working(mark, 6)) for name in ("a", "b")]
    first = start_worker("--name", "same", "--slots", "1")
    start_worker("--name", "same", "--slots", "1")
    until(lambda: len(set(marks.slots(mark))) == 2)
    row = Worker.objects.get(pid=first.pid)
    lost = Job.objects.get(worker_id=row.pk)
    first.kill()
    until(lambda: {status(job) for job in jobs} == {Status.SUCCESS})
    assert {job.pk: Job.objects.get(pk=job.pk).epoch for job in jobs} == {
        job.pk: 2 if job.pk == lost.pk else 1 for job in jobs
    }


def test_a_slot_leaves_when_its_supervisor_is_killed(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    submitted(cast.site, payload=working(mark, 60))
    worker = start_worker()
    until(lambda: bool(marks.slots(mark)))
    worker.kill()
    until(lambda: not marks.is_alive(marks.slots(mark)[0]))


def test_a_slot_that_dies_is_replaced_and_its_job_stops_at_the_last_attempt(
    cast: Cast, start_worker: StartWorker
) -> None:
    """Queue A10 and B4."""
    deadly = submitted(cast.site, payload={"how": "exit"})
    start_worker("--slots", "1")
    until(lambda: status(deadly) == Status.FAILED)
    assert JobEvent.objects.filter(job=deadly, event_type=EventType.CLAIMED).count() == 3
    after = submitted(make_site(cast, "after.test"))
    until(lambda: status(after) == Status.SUCCESS)


def test_a_slot_killed_at_work_is_noticed_at_once(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue A10: by its end, long before its silence is too long."""
    job = submitted(cast.site, "SAMPLE_CHANGE", working(mark, 60))
    start_worker("--slots", "1", CHP_HEARTBEAT_SECONDS="30", CHP_POLL_SECONDS="30")
    until(lambda: bool(marks.slots(mark)))
    Job.objects.filter(pk=job.pk).update(stale_seconds=1000)
    os.kill(marks.slots(mark)[0], signal.SIGKILL)
    until(lambda: status(job) == Status.ORPHANED, 20)
    assert "code -9" in Job.objects.get(pk=job.pk).error_message


def test_a_slot_that_hangs_up_costs_one_slot_and_not_the_worker(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue A10: its pipe is closed, its process goes on."""
    job = submitted(cast.site, "SAMPLE_CHANGE", working(mark, 120, "hang_up"))
    beside = submitted(make_site(cast, "beside.test"), payload=working(mark, 6))
    start_worker("--slots", "2")
    until(lambda: status(job) == Status.ORPHANED)
    until(lambda: status(beside) == Status.SUCCESS)
    assert Job.objects.get(pk=beside.pk).epoch == 1


def test_two_workers_share_the_queue_and_each_job_runs_once(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    jobs = [submitted(make_site(cast, f"s{n}.test"), payload=working(mark, 0)) for n in range(20)]
    start_worker("--name", "one")
    start_worker("--name", "two")
    until(lambda: Job.objects.filter(status=Status.SUCCESS).count() == len(jobs))
    assert Counter(marks.runs(mark)) == {job.code: 1 for job in jobs}


@pytest.mark.parametrize("how", ["work", "spin", "hold_interpreter"])
def test_a_long_job_that_beats_is_never_handed_out_again(
    cast: Cast, start_worker: StartWorker, mark: Path, how: str
) -> None:
    """Queue A2, B15: the job is much longer than the limit of silence, and never gives way."""
    job = submitted(cast.site, payload=working(mark, 8, how))
    start_worker("--name", "one", "--slots", "1")
    start_worker("--name", "two", "--slots", "1")
    until(lambda: status(job) == Status.SUCCESS)
    assert marks.runs(mark) == [job.code]


def test_a_claim_that_was_not_heard_of_is_given_back(cast: Cast, start_worker: StartWorker) -> None:
    """Queue A7: the answer was lost with the connection, so no slot has the job."""
    start_worker("--slots", "1")
    until(Worker.objects.exists)
    with transaction.atomic():
        job = submitted(cast.site)
        assert queue.claim(Worker.objects.get(), [0], ["SAMPLE"]) == [job]
    until(lambda: status(job) == Status.SUCCESS)
    job.refresh_from_db()
    assert (job.epoch, job.attempt) == (2, 1)
    told = JobEvent.objects.get(job=job, event_type=EventType.RETRY)
    assert "did not hear of its claim" in told.message


# --- Brief jobs, several in one hand ----------------------------------------------------------------
def test_a_deadly_brief_job_takes_no_other_with_it(cast: Cast, start_worker: StartWorker) -> None:
    """Queue B4: those of the same hand succeed; the deadly one stops at its last attempt."""
    first = submitted(cast.site, "SAMPLE_BRIEF")
    deadly = submitted(cast.site, "SAMPLE_BRIEF", {"how": "exit"})
    third = submitted(cast.site, "SAMPLE_BRIEF")
    start_worker("--slots", "1")
    until(lambda: not Job.objects.exclude(status__in=[Status.SUCCESS, Status.FAILED]).exists())
    assert [status(job) for job in (first, deadly, third)] == [Status.SUCCESS, Status.FAILED, Status.SUCCESS]
    assert [Job.objects.get(pk=job.pk).attempt for job in (first, deadly, third)] == [1, 3, 1]


def test_what_waits_behind_a_long_brief_job_is_handed_back(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    long = submitted(cast.site, "SAMPLE_BRIEF", working(mark, 2))
    others = [submitted(cast.site, "SAMPLE_BRIEF", working(mark, 0)) for _ in range(3)]
    start_worker("--slots", "1")
    until(lambda: not Job.objects.exclude(status=Status.SUCCESS).exists())
    back = JobEvent.objects.filter(event_type=EventType.RETRY, message__contains="took long")
    assert sorted(back.values_list("job_id", flat=True)) == [job.pk for job in others]
    assert set(Job.objects.values_list("attempt", flat=True)) == {1}
    assert Counter(marks.runs(mark)) == {job.code: 1 for job in (long, *others)}


# --- Cancellation -----------------------------------------------------------------------------------
def test_a_cancellation_reaches_a_busy_worker_at_the_next_checkpoint(
    cast: Cast, start_worker: StartWorker, mark: Path
) -> None:
    """Queue D3: with all slots taken and no poll due; one that was rolled back has no effect."""
    job = submitted(cast.site, payload=working(mark, 50))
    start_worker("--slots", "1", CHP_POLL_SECONDS="30")
    until(lambda: bool(marks.runs(mark)))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        pipeline.cancel(operator("root"), job.pk, "rolled back")
        raise ZeroDivisionError
    seen = JobEvent.objects.filter(job=job, event_type=EventType.CHECKPOINT)
    before = seen.count()
    until(lambda: seen.count() > before + 2)
    pipeline.cancel(operator("root"), job.pk, "no longer needed")
    until(lambda: status(job) == Status.CANCELLED, 20)


def test_cancellation_wins_over_a_further_attempt(cast: Cast, start_worker: StartWorker, mark: Path) -> None:
    """Queue D4: the work breaks while it stops, and two attempts are left."""
    job = submitted(cast.site, payload=working(mark, 50, "fail_when_cancelled"))
    start_worker("--slots", "1")
    until(lambda: bool(marks.runs(mark)))
    pipeline.cancel(operator("root"), job.pk, "no longer needed")
    until(lambda: status(job) == Status.CANCELLED, 20)
    assert marks.runs(mark) == [job.code]

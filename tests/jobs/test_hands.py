"""Hands: several brief jobs that one slot runs one after another, their ends recorded together."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from audit.clock import database_now
from audit.models import AuditEntry
from jobs import execution, recovery, registry
from jobs.database import insist
from jobs.execution import run_hand
from jobs.models import EventType, Job, JobEvent
from jobs.queue import claim
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db


def _hand(cast: Cast, *payloads: dict[str, object]) -> list[Job]:
    for payload in payloads:
        submitted(cast.site, "SAMPLE_BRIEF", payload)
    taken = claim(worker(), range(1), ["SAMPLE_BRIEF"])
    assert len(taken) == len(payloads)
    return taken


def _run(jobs: list[Job]) -> list[int]:
    begun: list[int] = []
    run_hand([(job.pk, job.claim_token) for job in jobs], begun.append)
    for job in jobs:
        job.refresh_from_db()
    return begun


def test_each_has_its_own_end_its_history_and_its_entries(cast: Cast) -> None:
    jobs = _hand(cast, {}, {"how": "fail"}, {"how": "refuse"}, {"how": "break"}, {})
    assert _run(jobs) == [0, 1, 2, 3, 4]
    assert [job.status for job in jobs] == ["SUCCESS", "QUEUED", "FAILED", "FAILED", "SUCCESS"]
    for job in jobs:
        kinds = list(JobEvent.objects.filter(job=job).order_by("pk").values_list("event_type", flat=True))
        assert kinds[:3] == [EventType.CREATED, EventType.CLAIMED, EventType.STARTED]
        assert AuditEntry.objects.filter(target=job.code).count() == 3


def test_what_one_cannot_write_leaves_the_others_their_ends(cast: Cast) -> None:
    jobs = _hand(cast, {}, {"how": "unsettled"}, {})
    _run(jobs)
    assert [job.status for job in jobs] == ["SUCCESS", "FAILED", "SUCCESS"]
    assert jobs[1].error_code == "not_settled"


def test_a_lost_claim_is_told_of_and_the_others_go_on(cast: Cast) -> None:
    """Rule 1, in a hand."""
    jobs = _hand(cast, {}, {}, {})
    with_old_claim = Job.objects.get(pk=jobs[1].pk)
    recovery.lose(with_old_claim, "by a test")
    assert _run(jobs) == [0, 2]
    assert [job.status for job in jobs] == ["SUCCESS", "QUEUED", "SUCCESS"]


def test_what_is_lost_while_it_runs_becomes_a_late_result(cast: Cast) -> None:
    """Queue A5."""
    jobs = _hand(cast, {}, {})
    lost = Job.objects.get(pk=jobs[0].pk)
    seen = execution._claimed([(job.pk, job.claim_token) for job in jobs])
    recovery.lose(lost, "by a test")
    done = execution.Line(EventType.SUCCESS, "done")
    execution._record([(job, execution.End(Status.SUCCESS, done)) for job in seen.values()])
    for job in jobs:
        job.refresh_from_db()
    assert [job.status for job in jobs] == ["QUEUED", "SUCCESS"]
    assert JobEvent.objects.filter(job=jobs[0], event_type=EventType.LATE_RESULT).count() == 1


def test_an_end_whose_record_was_not_heard_of_is_no_late_result(cast: Cast) -> None:
    """The answer to the commit was lost with the connection: recorded again, it changes nothing."""
    jobs = _hand(cast, {}, {})
    seen = execution._claimed([(job.pk, job.claim_token) for job in jobs])
    ends = [
        (job, execution.End(Status.SUCCESS, execution.Line(EventType.SUCCESS, "done")))
        for job in seen.values()
    ]
    execution._record(ends)
    before = (JobEvent.objects.count(), AuditEntry.objects.count())
    execution._record(ends)
    assert (JobEvent.objects.count(), AuditEntry.objects.count()) == before


def test_a_hand_that_takes_long_is_cut_short_and_the_rest_spends_nothing(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "HAND_SECONDS", 0.05)
    jobs = _hand(cast, {"seconds": 0.1}, {}, {})
    assert _run(jobs) == [0]
    assert [(job.status, job.attempt) for job in jobs] == [("SUCCESS", 1), ("QUEUED", 0), ("QUEUED", 0)]
    again = claim(worker(), range(1), ["SAMPLE_BRIEF"])
    assert {job.pk for job in again} == {jobs[1].pk, jobs[2].pk}


def test_the_deadline_of_a_hand_is_for_all_of_it(cast: Cast) -> None:
    jobs = _hand(cast, {}, {}, {})
    assert {job.deadline_at - job.started_at for job in jobs} == {timedelta(seconds=180)}


def test_a_job_called_off_before_its_turn_in_the_hand_ends_as_it_really_ended(cast: Cast) -> None:
    """Queue D1: work that has ended is never relabelled."""
    jobs = _hand(cast, {}, {})
    moved(jobs[1], Status.CANCEL_REQUESTED)
    _run(jobs)
    assert [job.status for job in jobs] == ["SUCCESS", "SUCCESS"]


def test_a_hand_costs_the_same_number_of_queries_however_many_it_holds(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "HAND_SECONDS", 600)
    monkeypatch.setattr(execution, "FLUSH_SECONDS", 600)
    counts = []
    for many in (8, 40):
        jobs = _hand(cast, *({} for _ in range(many)))
        with CaptureQueriesContext(connection) as captured:
            _run_alone(jobs)
        counts.append(len(captured) - many)  # each writes its own progress
    assert counts[0] == counts[1]


def _run_alone(jobs: list[Job]) -> None:
    run_hand([(job.pk, job.claim_token) for job in jobs])


def test_the_beginning_is_told_at_its_own_time(cast: Cast) -> None:
    before = database_now()
    jobs = _hand(cast, {}, {})
    _run(jobs)
    for job in jobs:
        claimed, started, ended = (
            JobEvent.objects.get(job=job, event_type=kind).at
            for kind in (EventType.CLAIMED, EventType.STARTED, EventType.SUCCESS)
        )
        assert before <= claimed <= started <= ended + timedelta(milliseconds=2)


# --- Trouble with the database ---------------------------------------------------------------------
@contextmanager
def _one_failure(where: str) -> Iterator[None]:
    """Have the first statement that holds these words fail, as a lost connection or a deadlock does."""
    left = [where]

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and left[0] in sql:
            left.clear()
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail):
        yield
    assert left == []


TROUBLES = ("UPDATE jobs_job SET", "INSERT INTO jobs_jobevent", "audit_audithead WHERE")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["SAMPLE_BRIEF", "SAMPLE"])
@pytest.mark.parametrize("where", TROUBLES)
def test_an_end_that_could_not_be_recorded_at_first_is_no_late_result(
    cast: Cast, kind: str, where: str
) -> None:
    """Queue B9, B10: what is repeated after trouble finds the claim as it was."""
    job = submitted(cast.site, kind)
    (got,) = claim(worker(), [0], registry.known_types())
    with _one_failure(where):
        run_hand([(got.pk, got.claim_token)])
    job.refresh_from_db()
    assert job.status == Status.SUCCESS
    assert not JobEvent.objects.filter(job=job, event_type=EventType.LATE_RESULT).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", TROUBLES)
def test_what_could_not_be_handed_back_at_first_is_handed_back(cast: Cast, where: str) -> None:
    """Queue B9."""
    job = submitted(cast.site, "SAMPLE_BRIEF")
    (got,) = claim(worker(), [0], registry.known_types())
    with _one_failure(where):
        insist(lambda: recovery.hand_back([got], "a test"))
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Status.QUEUED, 0)

"""Two who want the same rows: each takes them in the one order, so that neither waits for the other for ever.

Every case holds one row until both stand before a lock, which is the moment at which a wrong order shows. On
SQLite, where a writer is alone, they follow each other.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from accounts.actor import operator
from audit import clock
from audit.clock import database_now
from jobs import pipeline, prune, queue, recovery, registry
from jobs.events import Line
from jobs.exceptions import NotVisible, Refused
from jobs.execution import End, _record
from jobs.models import EventType, Job
from jobs.request import JobRequest
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.lock_waits import until_waiting
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = operator("root")
Act = Callable[[], Any]
YEARS = timedelta(days=4000)


def _let_stand(threads: Sequence[threading.Thread]) -> None:
    """Wait until each of these that has not come to its end stands before a lock."""
    in_time = until_waiting(lambda waiting: waiting >= sum(thread.is_alive() for thread in threads), 20)
    assert in_time, "somebody neither ends nor waits for a lock"


def _while_held(held: Job, acts: Sequence[Act]) -> list[Any]:
    """Begin the acts one after another while a row is held; give what became of each once it is let go."""
    answers: list[Any] = [None] * len(acts)

    def do(position: int, act: Act) -> None:
        try:
            answers[position] = act()
        except (DatabaseError, Refused) as error:
            answers[position] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=do, args=(position, act)) for position, act in enumerate(acts)]
    with transaction.atomic():
        list(Job.objects.select_for_update().filter(pk=held.pk))
        # A write, so that SQLite's transaction really holds.
        Job.objects.filter(pk=held.pk).update(progress_step="held")
        for number, thread in enumerate(threads, 1):
            thread.start()
            _let_stand(threads[:number])
    for thread in threads:
        thread.join(60)
    return answers


def _brief_running(cast: Cast, number: int) -> list[Job]:
    jobs = [submitted(cast.site, "SAMPLE_BRIEF") for _ in range(number)]
    got = queue.claim(worker(), [0], registry.known_types())
    assert {job.pk for job in got} == {job.pk for job in jobs}
    return sorted(got, key=lambda job: job.pk)


def _chain_after(cast: Cast, parents: Sequence[Job]) -> Act:
    wishes = [JobRequest("SAMPLE_LOOK", cast.foreign_site.pk, after=(parent.code,)) for parent in parents]
    return lambda: pipeline.submit_chain(ROOT, wishes)


def _end_of(jobs: Sequence[Job]) -> Act:
    return lambda: _record([(job, End(Status.SUCCESS, Line(EventType.SUCCESS, "done"))) for job in jobs])


def _failures(answers: Sequence[Any]) -> list[Any]:
    return [answer for answer in answers if isinstance(answer, Exception)]


def test_work_that_goes_back_and_its_cancellation(cast: Cast) -> None:
    """Both take the gate of the site first, also for work that locks no site."""
    (job,) = _brief_running(cast, 1)
    back, off = (lambda: recovery.hand_back([job], "a test"), lambda: pipeline.cancel(ROOT, job.pk, "a test"))
    assert _failures(_while_held(job, [back, off])) == []
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_a_chain_and_the_end_of_those_that_it_waits_for(cast: Cast) -> None:
    """The chain names them in another order than that of their keys."""
    first, second = _brief_running(cast, 2)
    acts = [_chain_after(cast, [second, first]), _end_of([first, second])]
    assert _failures(_while_held(second, acts)) == []
    assert not Job.objects.filter(site=cast.foreign_site, readiness="PARENT").exists()


def test_a_beat_and_the_end_of_its_jobs(cast: Cast) -> None:
    first, second = _brief_running(cast, 2)
    # Its row lies behind the other's from now on, as after any change of it alone.
    Job.objects.filter(pk=first.pk).update(progress_percent=1)
    acts = [lambda: queue.beat([first.claim_token]), _end_of([first, second])]
    assert _failures(_while_held(second, acts)) == []
    assert set(Job.objects.values_list("status", flat=True)) == {Status.SUCCESS}


def test_pruning_and_a_chain_behind_what_is_pruned(cast: Cast) -> None:
    with clock.override(database_now() - YEARS):
        ended = [
            moved(moved(submitted(cast.site, "SAMPLE_LOOK"), Status.RUNNING), Status.SUCCESS) for _ in "ab"
        ]
    acts = [_chain_after(cast, ended[::-1]), prune.prune]
    answers = _while_held(ended[1], acts)
    assert all(isinstance(failure, NotVisible) for failure in _failures(answers))


def test_what_was_to_be_waited_for_and_is_pruned_at_that_moment_is_missed(cast: Cast) -> None:
    """Not queued as if it had never been named."""
    with clock.override(database_now() - YEARS):
        parent = moved(moved(submitted(cast.site, "SAMPLE_LOOK"), Status.RUNNING), Status.FAILED)
    wish = JobRequest("SAMPLE_LOOK", cast.foreign_site.pk, after=(parent.code,))
    _while_held(parent, [prune.prune, lambda: pipeline.submit(ROOT, wish)])
    assert not Job.objects.filter(site=cast.foreign_site).exists()

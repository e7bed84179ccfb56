"""Cancelling at random while jobs end: one winner each, and the answer told the truth.

`CHP_ENGINE_CANCELS` is how many jobs there are.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from pytest_django import Settings

from accounts.actor import operator
from jobs import pipeline
from jobs.exceptions import WrongState
from jobs.models import Job
from jobs.request import JobRequest
from jobs.states import Status
from sites.models import Site
from tests.cast import Cast
from tests.engine import crowd
from tests.engine.invariants import violations
from tests.engine.limits import OVERALL
from tests.engine.violation import Expected
from tests.processes import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = int(os.environ.get("CHP_ENGINE_CANCELS", "60"))
# As many at once; ENGINE_LOOK has no limit of its own.
SLOTS = 4
WORK_SECONDS = 0.2
PATIENCE = 60.0
CALM = {"CHP_STALE_BEATS": "100"}
REFUSED = "refused"
# What each answer leaves open.
AGREES: dict[str, set[str]] = {
    Status.CANCELLED: {Status.CANCELLED},
    Status.CANCEL_REQUESTED: {Status.CANCELLED, Status.SUCCESS},
    REFUSED: {Status.SUCCESS},
}


@dataclass
class Caller:
    """Submits jobs and cancels each at a random moment. `took`: how long one takes here, in seconds."""

    sites: list[Site]
    mark: Path
    took: float
    dice: Random

    def answers(self, number: int) -> dict[int, str]:
        """Give what each cancellation was answered, by the job's key."""
        found: dict[int, str] = {}
        while len(found) < number:
            keys = [self.submit(site).pk for site in self.sites[: number - len(found)]]
            if self.dice.random() < 0.8:
                _until(lambda keys=keys: not _in(keys, Status.QUEUED))
            found |= self._cancelled(keys)
            _until(crowd.is_over)
        return found

    def submit(self, site: Site) -> Job:
        payload = {"seconds": WORK_SECONDS, "mark": str(self.mark)}
        return pipeline.submit(operator("caller"), JobRequest("ENGINE_LOOK", site.pk, payload)).job

    def _cancelled(self, keys: list[int]) -> Iterator[tuple[int, str]]:
        now = time.monotonic()
        moments = sorted((now + self.dice.uniform(0, 2 * self.took), key) for key in keys)
        for moment, key in moments:
            time.sleep(max(0.0, moment - time.monotonic()))
            yield key, self._cancel(key)

    def _cancel(self, key: int) -> str:
        try:
            return pipeline.cancel(operator("caller"), key, "changed my mind").status
        except WrongState:
            return REFUSED


@pytest.fixture
def caller(cast: Cast, start_worker: StartWorker, settings: Settings, tmp_path: Path) -> Iterator[Caller]:
    """Somebody who has a running worker and knows how long a job takes with it."""
    settings.CHP_STALE_BEATS = int(CALM["CHP_STALE_BEATS"])
    sites = crowd.make_sites([cast.customer], [cast.server], SLOTS)
    caller = Caller(sites, tmp_path / "marks", 0.0, Random(JOBS))
    more = {**CALM, "DJANGO_SETTINGS_MODULE": "tests.engine.settings", "MAX_WORKERS": str(OVERALL)}
    worker = start_worker("--slots", str(SLOTS), **more)
    first = caller.submit(cast.site)
    _until(crowd.is_over)
    first.refresh_from_db()
    assert first.started_at is not None and first.completed_at is not None
    caller.took = (first.completed_at - first.started_at).total_seconds()
    yield caller
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0


def _until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(
                f"not so within {PATIENCE} s: {list(Job.objects.values_list('status'))[-9:]}"
            )
        time.sleep(0.01)


def _in(keys: Iterable[int], status: Status) -> bool:
    return Job.objects.filter(pk__in=keys, status=status).exists()


def test_who_cancels_while_a_job_ends_is_told_the_truth(caller: Caller) -> None:
    """Queue D1."""
    answers = caller.answers(JOBS)
    ends = dict(Job.objects.filter(pk__in=answers).values_list("pk", "status"))
    assert len(ends) == JOBS
    assert [(answer, ends[key]) for key, answer in answers.items() if ends[key] not in AGREES[answer]] == []
    assert set(answers.values()) >= {Status.CANCEL_REQUESTED, REFUSED}
    assert violations(Expected(all_ended=True, orphans=frozenset(), marks=caller.mark)) == []

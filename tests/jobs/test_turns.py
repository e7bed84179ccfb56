"""Customers take turns within a priority, and long waiting raises it."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from audit import clock
from audit.clock import database_now
from jobs import aging
from jobs.models import EventType, Job, JobEvent
from jobs.profile import Priority
from jobs.queue import claim
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db


def _drained(places: int = 1) -> list[Job]:
    order = []
    while taken := claim(worker(), range(places), ["SAMPLE", "SAMPLE_LOOK"]):
        order += taken
        for job in taken:
            moved(job, Status.SUCCESS)
    return order


def test_one_customers_many_jobs_do_not_keep_anothers_single_job_waiting(cast: Cast) -> None:
    """Queue E12."""
    for _ in range(30):
        submitted(cast.site, "SAMPLE_LOOK")
    single = submitted(cast.foreign_site, "SAMPLE_LOOK")
    place = [job.pk for job in _drained()].index(single.pk)
    assert place <= 1


def test_who_comes_late_gets_the_present_turn_and_jumps_nobodys(cast: Cast) -> None:
    many = [submitted(cast.site, "SAMPLE_LOOK") for _ in range(6)]
    for _ in range(3):
        (taken,) = claim(worker(), range(1), ["SAMPLE_LOOK"])
        moved(taken, Status.SUCCESS)
    others = [submitted(cast.foreign_site, "SAMPLE_LOOK") for _ in range(3)]
    order = [job.pk for job in _drained()]
    ours, theirs = [job.pk for job in many[3:]], [job.pk for job in others]
    assert order == [pk for pair in zip(ours, theirs, strict=True) for pk in pair]


def test_a_turn_is_within_a_priority(cast: Cast) -> None:
    low = submitted(cast.foreign_site, "SAMPLE_LOOK", priority=Priority.LOW)
    normal = [submitted(cast.site, "SAMPLE_LOOK") for _ in range(3)]
    assert [job.pk for job in _drained()] == [*(job.pk for job in normal), low.pk]


def test_a_job_that_waits_long_rises_and_says_so_but_never_above_high(cast: Cast) -> None:
    job = submitted(cast.site, priority=Priority.LOW)
    start = database_now()
    for hours in (7, 14, 21, 28):
        with clock.override(start + timedelta(hours=hours)):
            aging.raise_priorities()
    job.refresh_from_db()
    assert job.priority == Priority.HIGH
    raised = JobEvent.objects.filter(job=job, event_type=EventType.PRIORITY_RAISED)
    assert [line.data["priority"] for line in raised] == [Priority.NORMAL, Priority.HIGH]


def test_what_has_not_waited_long_or_waits_for_its_time_does_not_rise(cast: Cast) -> None:
    submitted(cast.site)
    submitted(make_site(cast, "later.test"), scheduled_at=database_now() + timedelta(days=30))
    with clock.override(database_now() + timedelta(hours=5)):
        assert aging.raise_priorities() == 0
    with clock.override(database_now() + timedelta(hours=7)):
        assert aging.raise_priorities() == 1


def test_aging_can_be_switched_off(cast: Cast, settings: Settings) -> None:
    settings.CHP_AGING_HOURS = 0
    submitted(cast.site)
    with clock.override(database_now() + timedelta(days=9)):
        assert aging.raise_priorities() == 0


def test_a_risen_job_is_handed_out_first(cast: Cast) -> None:
    old = submitted(cast.site, "SAMPLE_LOOK", priority=Priority.LOW)
    with clock.override(database_now() + timedelta(hours=13)):
        aging.raise_priorities()
    with clock.override(database_now() + timedelta(hours=26)):
        aging.raise_priorities()
    fresh = submitted(cast.foreign_site, "SAMPLE_LOOK")
    assert [job.pk for job in _drained()] == [old.pk, fresh.pk]

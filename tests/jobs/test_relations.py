"""Who waits for whom: within what an actor may see, at a constant cost."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.actor import actor_for, operator
from jobs import pipeline
from jobs.models import Job
from jobs.relations import Related, related_to
from jobs.request import JobRequest
from jobs.states import Status
from sites.models import Site
from tests.cast import Cast
from tests.jobs.samples import moved, submitted

pytestmark = pytest.mark.django_db
ROOT = operator("root")


def _chain(*sites: Site) -> list[Job]:
    """Submit jobs of which each but the first waits for the first."""
    wishes = [
        JobRequest("SAMPLE", site.pk, label=f"j{at}", after=("j0",) if at else ())
        for at, site in enumerate(sites)
    ]
    return [one.job for one in pipeline.submit_chain(ROOT, wishes)]


def test_parents_and_dependents_are_told_both_ways(cast: Cast) -> None:
    first, second, third = _chain(cast.site, cast.site, cast.read_only_site)
    alone = submitted(cast.site)
    found = related_to([first, second, alone], ROOT)
    assert found[first.pk].dependents == (second, third)
    assert found[second.pk].parents == (first,)
    assert found[alone.pk] == Related()


def test_the_job_that_called_it_off_is_told(cast: Cast) -> None:
    first, second = _chain(cast.site, cast.site)
    moved(first, Status.CANCELLED)
    second.refresh_from_db()
    assert related_to([second], ROOT)[second.pk].called_off_with == first


def test_what_the_actor_may_not_see_is_left_out(cast: Cast) -> None:
    foreign, mine, also_mine = _chain(cast.foreign_site, cast.site, cast.site)
    owner = actor_for(cast.owner, "panel")
    moved(foreign, Status.CANCELLED)
    mine.refresh_from_db()
    assert related_to([mine], ROOT)[mine.pk] == Related(parents=(foreign,), called_off_with=foreign)
    for actor in (owner, None):
        assert related_to([mine], actor)[mine.pk] == Related()
    assert related_to([foreign], owner)[foreign.pk].dependents == (mine, also_mine)


def test_it_costs_three_queries_however_many(cast: Cast) -> None:
    jobs = [job for _ in range(10) for job in _chain(cast.site, cast.site)]
    for some in (jobs[:2], jobs):
        with CaptureQueriesContext(connection) as asked:
            related_to(some, ROOT)
        assert len(asked) == 3
    assert related_to([]) == {}

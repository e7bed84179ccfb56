"""Limits: overall, by type, on a server, by type on a server, by heavy resource; counted by places."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pytest_django import Settings

from jobs import waiting
from jobs.limits import room
from jobs.models import Job, JobPolicy
from jobs.profile import Load, Profile
from jobs.queue import HAND, claim
from jobs.states import Status
from sites.models import Server, Site
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.sample_operations import SampleBrief, SampleLook
from tests.jobs.samples import moved, submitted, worker

pytestmark = pytest.mark.django_db
LOOK = "SAMPLE_LOOK"


@pytest.fixture
def second_site(cast: Cast) -> Site:
    """A site on another server."""
    server = Server.objects.create(
        name="web2", agent_socket="/nonexistent/2.sock", key_id="web2", web_address="127.0.0.1:9"
    )
    site = make_site(cast, "second.test")
    Site.objects.filter(pk=site.pk).update(server=server)
    site.refresh_from_db()
    return site


@pytest.fixture
def heavy_look() -> Iterator[None]:
    """Let the sample look use its server's disk heavily."""
    before: Profile = SampleLook.profile
    profiled: type[SampleLook] = SampleLook
    profiled.profile = replace(before, disk=Load.HEAVY)
    yield
    profiled.profile = before


def _claims(places: int = 4) -> list[Job]:
    return claim(worker(), range(places), ["SAMPLE", LOOK, "SAMPLE_BRIEF", "SAMPLE_CHANGE"])


def _reason(job: Job) -> str:
    return waiting.explain([job])[job.pk]


def test_the_places_of_the_installation_are_never_exceeded(cast: Cast, settings: Settings) -> None:
    settings.MAX_WORKERS = 2
    jobs = [submitted(cast.site, LOOK) for _ in range(3)]
    assert len(_claims()) == 2
    assert _claims() == []
    assert _reason(jobs[2]) == "MAX_WORKERS limit 2 of 2"


def test_a_full_server_does_not_hold_up_another(cast: Cast, settings: Settings, second_site: Site) -> None:
    settings.MAX_JOBS_PER_SERVER = 1
    jobs = [submitted(cast.site, LOOK) for _ in range(20)]
    other = submitted(second_site, LOOK)
    assert {job.pk for job in _claims()} == {jobs[0].pk, other.pk}
    assert _reason(jobs[1]) == "limit of jobs on its server 1 of 1"


def test_a_type_has_a_limit_of_its_own_on_a_server(cast: Cast, settings: Settings, second_site: Site) -> None:
    settings.CHP_TYPE_LIMITS_PER_SERVER = {LOOK: 1}
    jobs = [submitted(cast.site, LOOK), submitted(cast.site, LOOK), submitted(second_site, LOOK)]
    backup = submitted(cast.site)
    assert {job.pk for job in _claims()} == {jobs[0].pk, jobs[2].pk, backup.pk}
    assert _reason(jobs[1]) == "SAMPLE_LOOK limit 1 of 1 on its server"


def test_a_heavy_resource_is_limited_on_each_server(
    cast: Cast, settings: Settings, second_site: Site, heavy_look: None
) -> None:
    settings.CHP_HEAVY_LIMITS = {"disk": 1, "database": 1, "network": 1}
    jobs = [submitted(cast.site, LOOK) for _ in range(20)] + [submitted(second_site, LOOK)]
    light = submitted(cast.site)
    assert {job.pk for job in _claims()} == {jobs[0].pk, jobs[20].pk, light.pk}
    assert _reason(jobs[1]) == "heavy disk limit 1 of 1 on its server"


def test_the_policy_of_a_type_lowers_its_limits(cast: Cast, second_site: Site) -> None:
    JobPolicy.objects.create(job_type=LOOK, concurrency=2, concurrency_per_server=1)
    for site in (cast.site, cast.site, second_site, second_site):
        submitted(site, LOOK)
    assert {job.site_id for job in _claims()} == {cast.site.pk, second_site.pk}
    assert _claims() == []


def test_a_limit_of_nothing_lets_nothing_start(cast: Cast, settings: Settings) -> None:
    settings.CHP_TYPE_LIMITS = {"SAMPLE": 0}
    job = submitted(cast.site)
    assert _claims() == []
    assert _reason(job) == "SAMPLE limit 0 of 0"


def test_an_end_gives_its_place_back_once(cast: Cast, settings: Settings) -> None:
    """Queue E9: counted from rows; many that leave the queue at once give no extra places."""
    settings.CHP_TYPE_LIMITS = {LOOK: 1}
    jobs = [submitted(cast.site, LOOK) for _ in range(12)]
    (running,) = _claims()
    for job in jobs[1:8]:
        moved(job, Status.CANCELLED)
    assert _claims() == []
    moved(running, Status.SUCCESS)
    assert len(_claims()) == 1


def test_a_hand_of_brief_jobs_takes_one_place(cast: Cast, settings: Settings) -> None:
    settings.MAX_WORKERS = 2
    settings.CHP_TYPE_LIMITS = {"SAMPLE_BRIEF": 1}
    for _ in range(10):
        submitted(cast.site, "SAMPLE_BRIEF")
    look = submitted(cast.site, LOOK)
    taken = _claims(2)
    assert [job.job_type for job in taken].count("SAMPLE_BRIEF") == 10
    assert len({job.place for job in taken if job.brief}) == 1
    assert look.pk in {job.pk for job in taken}
    assert room().is_full()


def test_brief_jobs_are_shared_out_among_the_free_places_and_a_hand_is_bounded(cast: Cast) -> None:
    for _ in range(2 * HAND + 5):
        submitted(cast.site, "SAMPLE_BRIEF")
    taken = _claims(2)
    places = [job.place for job in taken]
    assert (len(taken), places.count(0), places.count(1)) == (2 * HAND, HAND, HAND)


def test_a_place_that_holds_a_job_is_handed_no_other(cast: Cast) -> None:
    who = worker()
    for _ in range(2):
        submitted(cast.site, LOOK)
    assert len(claim(who, [0], [LOOK])) == 1
    assert claim(who, [0], [LOOK]) == []
    assert len(claim(who, [1], [LOOK])) == 1


def test_only_work_that_changes_nothing_and_is_repeated_can_be_brief() -> None:
    sample = SampleBrief.profile
    with pytest.raises(ValueError, match="brief"):
        replace(sample, mutating=True)

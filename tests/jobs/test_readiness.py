"""Stored readiness: where a queued job stands is kept up by everything that changes it."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.actor import operator
from audit import clock
from audit.clock import database_now
from jobs import bell, pipeline, recovery
from jobs.models import Job, SiteGate
from jobs.profile import Priority
from jobs.queue import claim, get_due_in_line
from jobs.states import Readiness, Status
from tests.builders import make_site
from tests.cast import Cast
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("root")


def _stands(job: Job) -> tuple[str, int | None]:
    job.refresh_from_db()
    return job.readiness, job.blocked_by_id


def _gate(cast: Cast) -> tuple[int, int, int]:
    gate = SiteGate.objects.get(site=cast.site)
    return gate.exclusive, gate.mutating, gate.shared


def test_a_job_on_an_open_site_is_ready_and_one_of_its_kind_stands_behind_it(cast: Cast) -> None:
    first, second = submitted(cast.site), submitted(cast.site)
    assert _stands(first) == (Readiness.READY, None)
    assert _stands(second) == (Readiness.BEHIND, None)


def test_work_of_another_kind_is_not_held_up_by_what_is_merely_queued(cast: Cast) -> None:
    """Queue E10: only what runs or is orphaned closes a site."""
    submitted(cast.site)
    assert _stands(submitted(cast.site, "SAMPLE_CHANGE")) == (Readiness.READY, None)
    assert _stands(submitted(cast.site, "SAMPLE_LOOK")) == (Readiness.READY, None)


def test_a_claim_shuts_out_what_conflicts_and_moves_the_next_of_its_kind_up(cast: Cast) -> None:
    change, behind = submitted(cast.site, "SAMPLE_CHANGE"), submitted(cast.site, "SAMPLE_CHANGE")
    backup, look = submitted(cast.site), submitted(cast.site, "SAMPLE_LOOK")
    (taken,) = claim(worker(), range(1), ["SAMPLE_CHANGE"])
    assert taken.pk == change.pk
    assert {_stands(job) for job in (behind, backup, look)} == {(Readiness.SITE, change.pk)}
    assert _gate(cast) == (1, 1, 0)


def test_shared_work_is_not_shut_out_by_a_backup(cast: Cast) -> None:
    look = submitted(cast.site, "SAMPLE_LOOK")
    submitted(cast.site)
    assert len(claim(worker(), range(1), ["SAMPLE"])) == 1
    assert _stands(look) == (Readiness.READY, None)
    assert _gate(cast) == (1, 0, 0)


def test_an_end_opens_the_site_for_all_that_waited(cast: Cast) -> None:
    change = claimed(cast.site, "SAMPLE_CHANGE")
    backup, look = submitted(cast.site), submitted(cast.site, "SAMPLE_LOOK")
    moved(change, Status.SUCCESS)
    assert {_stands(job) for job in (backup, look)} == {(Readiness.READY, None)}
    assert _gate(cast) == (0, 0, 0)


def test_what_waited_for_one_job_may_still_wait_for_another(cast: Cast) -> None:
    looks = [claimed(cast.site, "SAMPLE_LOOK"), claimed(cast.site, "SAMPLE_LOOK")]
    change = submitted(cast.site, "SAMPLE_CHANGE")
    assert _stands(change) == (Readiness.SITE, looks[0].pk)
    moved(looks[0], Status.SUCCESS)
    assert _stands(change) == (Readiness.SITE, looks[1].pk)
    moved(looks[1], Status.SUCCESS)
    assert _stands(change) == (Readiness.READY, None)


def test_an_orphan_keeps_the_site_closed_until_a_person_has_decided(cast: Cast) -> None:
    """Rule 6; queue E6, E7: nothing is left of the lock once it is resolved."""
    orphan = moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    waits = submitted(cast.site)
    assert _stands(waits) == (Readiness.SITE, orphan.pk)
    pipeline.resolve(ROOT, orphan.pk, Status.RESOLVED, "looked at")
    assert _stands(waits) == (Readiness.READY, None)
    assert _gate(cast) == (0, 0, 0)


@pytest.mark.parametrize("leaves", ["cancelled", "claimed and requeued"])
def test_whoever_leaves_the_line_gives_the_place_to_the_next(cast: Cast, leaves: str) -> None:
    first, second, third = (submitted(cast.site) for _ in range(3))
    if leaves == "cancelled":
        pipeline.cancel(ROOT, first.pk, "not needed")
    else:
        (taken,) = claim(worker(), range(1), ["SAMPLE"])
        moved(taken, Status.QUEUED, scheduled_at=database_now() + timedelta(hours=1))
        assert _stands(first)[0] == Readiness.LATER
    assert [_stands(job)[0] for job in (second, third)] == [Readiness.READY, Readiness.BEHIND]


def test_a_more_urgent_job_of_the_same_kind_does_not_stand_behind(cast: Cast) -> None:
    normal = submitted(cast.site)
    urgent = submitted(cast.site, priority=Priority.CRITICAL)
    assert _stands(urgent)[0] == Readiness.READY
    assert [job.pk for job in claim(worker(), range(2), ["SAMPLE"])] == [urgent.pk]
    assert _stands(normal) == (Readiness.SITE, urgent.pk)


def test_a_job_gets_in_line_when_its_time_comes(cast: Cast) -> None:
    later = submitted(cast.site, scheduled_at=database_now() + timedelta(hours=1))
    assert _stands(later) == (Readiness.LATER, None)
    assert get_due_in_line() == 0
    with clock.override(database_now() + timedelta(hours=2)):
        assert get_due_in_line() == 1
    assert _stands(later) == (Readiness.READY, None)


def test_a_requeued_job_stands_behind_those_of_its_kind(cast: Cast) -> None:
    first = claimed(cast.site)
    second = submitted(cast.site)
    moved(first, Status.QUEUED, scheduled_at=database_now())
    assert [_stands(job)[0] for job in (first, second)] == [Readiness.BEHIND, Readiness.READY]


def test_coming_and_leaving_cost_the_same_however_many_stand_behind(cast: Cast) -> None:
    """Queue I7."""
    few = _queries_of_a_round(cast)
    template = Job.objects.get(pk=submitted(cast.site).pk)
    names = [field.attname for field in Job._meta.concrete_fields if field.name not in ("id", "uuid")]
    row = {name: getattr(template, name) for name in names} | {"idempotency_key": None}
    Job.objects.bulk_create([Job(**row | {"readiness": Readiness.BEHIND}) for _ in range(300)])
    assert _queries_of_a_round(cast) == few


def _queries_of_a_round(cast: Cast) -> int:
    for _ in range(2):
        submitted(cast.site)
    with CaptureQueriesContext(connection) as captured:
        (taken,) = claim(worker(), range(1), ["SAMPLE"])
        moved(taken, Status.SUCCESS)
    return len(captured)


def test_who_is_called_off_and_makes_room_wakes_the_workers(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[bool] = []
    first, second = submitted(cast.site), submitted(cast.site)
    monkeypatch.setattr(bell, "ring", lambda: rung.append(True))
    pipeline.cancel(ROOT, first.pk, "not needed")
    assert _stands(second) == (Readiness.READY, None)
    assert rung


@pytest.mark.parametrize("counts", [{"exclusive": 2}, {"exclusive": 1, "mutating": 1, "shared": 1}])
def test_the_database_refuses_what_the_matrix_forbids(cast: Cast, counts: dict[str, int]) -> None:
    """Rule 2, the second of the three refusals: also for shared work beside a change."""
    submitted(cast.site)
    with pytest.raises(IntegrityError), transaction.atomic():
        SiteGate.objects.filter(site=cast.site).update(**counts)


def test_a_job_that_runs_against_the_rules_cannot_be_recorded(cast: Cast) -> None:
    """The gate is counted from the rows: a shared job let in beside a change makes the next move fail."""
    change = claimed(cast.site, "SAMPLE_CHANGE")
    look = submitted(cast.site, "SAMPLE_LOOK")
    with pytest.raises(IntegrityError), transaction.atomic():
        moved(look, Status.RUNNING)
    assert _stands(look) == (Readiness.SITE, change.pk)


@pytest.mark.parametrize("wrong", ["site", "behind", "none"])
def test_a_job_that_stands_wrongly_is_mended(cast: Cast, wrong: str) -> None:
    """Rule 6: no job is stuck, whatever became of its row."""
    ended = moved(claimed(make_site(cast, "other.test"), "SAMPLE_LOOK"), Status.SUCCESS)
    job = submitted(cast.site)
    columns = {
        "site": {"readiness": Readiness.SITE, "blocked_by": ended},
        "behind": {"readiness": Readiness.BEHIND},
        "none": {"readiness": Readiness.NONE},
    }
    Job.objects.filter(pk=job.pk).update(**columns[wrong])
    assert recovery.mend() == 1
    assert _stands(job) == (Readiness.READY, None)
    assert recovery.mend() == 0

"""The check itself: it passes what is legal, and finds each planted violation by its rule and by no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from audit.models import AuditEntry
from jobs.models import Job
from jobs.states import Status
from tests.builders import make_site
from tests.cast import Cast
from tests.engine.invariants import violations
from tests.engine.operations import ORPHANED_WHEN_LOST
from tests.engine.planting import Planter
from tests.engine.violation import Expected, Rule, Violation

pytestmark = pytest.mark.django_db

LIMITED = Expected(overall=3, by_type={"ENGINE_CHANGE": 1}, per_server=3, orphans=ORPHANED_WHEN_LOST)
Plant = Callable[[Planter, Cast], Job]


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    return Planter(tmp_path / "marks")


def _found(planter: Planter, expected: Expected = LIMITED) -> list[Violation]:
    marks = planter.marks if planter.marks.exists() else None
    return violations(replace(expected, marks=marks))


# --- What is legal -------------------------------------------------------------------------------
def _retried(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.QUEUED)
    planter.claim(job)
    planter.succeed(job)
    return job


def _cancelled(planter: Planter, cast: Cast) -> Job:
    planter.move(planter.job(cast.site), Status.CANCELLED)
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.CANCEL_REQUESTED)
    planter.move(job, Status.CANCELLED)
    return job


def _orphaned_and_resolved(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site, "CHANGE")
    planter.claim(job)
    planter.move(job, Status.ORPHANED)
    planter.move(job, Status.FAILED)
    planter.move(job, Status.RESOLVED)
    return job


def _failed_and_retried_by_a_person(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.FAILED)
    planter.move(job, Status.QUEUED)
    planter.claim(job)
    planter.succeed(job)
    return job


def _side_by_side(planter: Planter, cast: Cast) -> Job:
    jobs = [planter.job(cast.site, kind) for kind in ("COPY", "LOOK", "PROBE")]
    for job in jobs:
        planter.claim(job)
    planter.succeed(*jobs)
    return jobs[0]


def _after_each_other(planter: Planter, cast: Cast) -> Job:
    for number in range(4):
        job = planter.job(cast.site, "CHANGE", mark=str(planter.marks))
        planter.claim(job)
        planter.mark(job, "start", number)
        planter.mark(job, "end", number + 1)
        planter.succeed(job)
    return job


LEGAL: list[Plant] = [
    _retried,
    _cancelled,
    _orphaned_and_resolved,
    _failed_and_retried_by_a_person,
    _side_by_side,
    _after_each_other,
]


@pytest.mark.parametrize("tells", [True, False], ids=["told", "derived"])
@pytest.mark.parametrize("plant", LEGAL)
def test_a_legal_history_passes(planter: Planter, cast: Cast, plant: Plant, *, tells: bool) -> None:
    planter.tells = tells
    plant(planter, cast)
    assert _found(planter) == []


def test_a_place_with_several_jobs_in_hand_counts_once(planter: Planter, cast: Cast) -> None:
    jobs = [planter.job(make_site(cast, f"s{number}.test"), "CHANGE") for number in range(5)]
    for job in jobs:
        planter.claim(job, place=1)
    planter.succeed(*jobs)
    assert _found(planter) == []


def test_a_claim_at_the_moment_of_an_end_is_no_overlap(planter: Planter, cast: Cast) -> None:
    first, second = planter.job(cast.site), planter.job(cast.site)
    planter.claim(first)
    planter.claim(second)
    last = planter.clock
    planter.succeed(first, second)
    first.events.filter(event_type="SUCCESS").update(at=last)
    assert _found(planter) == []


# --- What must be found --------------------------------------------------------------------------
def _two_changes_on_one_site(planter: Planter, cast: Cast) -> Job:
    first, second = planter.job(cast.site), planter.job(cast.site)
    planter.claim(first)
    planter.claim(second)
    planter.succeed(first, second)
    return second


def _a_look_beside_a_change(planter: Planter, cast: Cast) -> Job:
    look, change = planter.job(cast.site, "LOOK"), planter.job(cast.site, "CHANGE")
    planter.claim(look)
    planter.claim(change)
    planter.succeed(change, look)
    return change


def _a_claim_beside_an_orphan(planter: Planter, cast: Cast) -> Job:
    orphan, after = planter.job(cast.site, "CHANGE"), planter.job(cast.site, "LOOK")
    planter.claim(orphan)
    planter.move(orphan, Status.ORPHANED)
    planter.claim(after)
    planter.succeed(after)
    return after


def _four_places_of_three(planter: Planter, cast: Cast) -> Job:
    jobs = [planter.job(cast.site, "PROBE") for _ in range(4)]
    for job in jobs:
        planter.claim(job)
    planter.succeed(*jobs)
    return jobs[-1]


def _two_changes_of_one(planter: Planter, cast: Cast) -> Job:
    jobs = [planter.job(site, "CHANGE") for site in (cast.site, cast.foreign_site)]
    for job in jobs:
        planter.claim(job)
    planter.succeed(*jobs)
    return jobs[-1]


def _two_ends(planter: Planter, cast: Cast) -> Job:
    job = _retried(planter, cast)
    planter.move(job, Status.FAILED)
    return job


def _an_end_without_a_claim(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.move(job, Status.SUCCESS, result={})
    return job


def _a_row_that_its_history_does_not_know(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.write(job, {"status": Status.CANCELLED})
    return job


def _an_origin_that_was_not(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.CANCELLED, origin=Status.CANCEL_REQUESTED)
    return job


def _one_epoch_twice(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.QUEUED)
    planter.claim(job, epoch=1)
    planter.succeed(job)
    return job


def _an_epoch_left_out(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job, epoch=2)
    planter.succeed(job)
    return job


def _the_end_of_an_earlier_claim(planter: Planter, cast: Cast) -> Job:
    job = _retried(planter, cast)
    job.events.filter(event_type="SUCCESS").update(epoch=1)
    return job


def _still_running(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.write(job, {"status": Status.RUNNING})
    return job


def _a_move_without_its_entry(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.move(job, Status.CANCELLED, audited=False)
    return job


def _two_entries_for_one_move(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.move(job, Status.CANCELLED)
    planter.entry(job, Status.CANCELLED)
    return job


def _an_altered_entry(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    AuditEntry.objects.filter(target=job.code).update(reason="because")
    return job


def _no_result(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.SUCCESS)
    return job


def _a_result_of_an_earlier_claim(planter: Planter, cast: Cast) -> Job:
    job = _retried(planter, cast)
    planter.write(job, {"result": {"epoch": 1}})
    return job


def _an_orphan_that_may_be_repeated(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site)
    planter.claim(job)
    planter.move(job, Status.ORPHANED)
    return job


def _two_runs_of_one_claim(planter: Planter, cast: Cast) -> Job:
    job = _retried(planter, cast)
    planter.mark(job, "start", epoch=2, pid=7)
    planter.mark(job, "start", epoch=2, pid=8)
    return job


def _a_run_that_nobody_claimed(planter: Planter, cast: Cast) -> Job:
    job = _retried(planter, cast)
    planter.mark(job, "start", epoch=3)
    return job


def _success_after_half_a_run(planter: Planter, cast: Cast) -> Job:
    job = planter.job(cast.site, mark=str(planter.marks))
    planter.claim(job)
    planter.mark(job, "start")
    planter.succeed(job)
    return job


def _two_runs_on_one_site_at_once(planter: Planter, cast: Cast) -> Job:
    _after_each_other(planter, cast)
    job = planter.job(cast.site)
    planter.claim(job)
    planter.mark(job, "start", 3.5)
    planter.mark(job, "end", 5)
    planter.succeed(job)
    return job


def _a_broken_mark(planter: Planter, cast: Cast) -> Job:
    planter.marks.write_text("JOB-000001 1 7 sta")
    return planter.job(cast.site)


PLANTED: list[tuple[Rule, Plant]] = [
    (Rule.CONFLICTS, _two_changes_on_one_site),
    (Rule.CONFLICTS, _a_look_beside_a_change),
    (Rule.CONFLICTS, _a_claim_beside_an_orphan),
    (Rule.LIMITS, _four_places_of_three),
    (Rule.LIMITS, _two_changes_of_one),
    (Rule.END, _two_ends),
    (Rule.MOVES, _an_end_without_a_claim),
    (Rule.MOVES, _a_row_that_its_history_does_not_know),
    (Rule.MOVES, _an_origin_that_was_not),
    (Rule.EPOCHS, _one_epoch_twice),
    (Rule.EPOCHS, _an_epoch_left_out),
    (Rule.EPOCHS, _the_end_of_an_earlier_claim),
    (Rule.LEFTOVER, _still_running),
    (Rule.AUDIT, _a_move_without_its_entry),
    (Rule.AUDIT, _two_entries_for_one_move),
    (Rule.AUDIT, _an_altered_entry),
    (Rule.RESULTS, _no_result),
    (Rule.RESULTS, _a_result_of_an_earlier_claim),
    (Rule.ORPHANS, _an_orphan_that_may_be_repeated),
    (Rule.MARKS, _two_runs_of_one_claim),
    (Rule.MARKS, _a_run_that_nobody_claimed),
    (Rule.MARKS, _success_after_half_a_run),
    (Rule.MARKS, _two_runs_on_one_site_at_once),
    (Rule.MARKS, _a_broken_mark),
]


@pytest.mark.parametrize(("rule", "plant"), PLANTED)
def test_a_planted_violation_is_found(planter: Planter, cast: Cast, rule: Rule, plant: Plant) -> None:
    job = plant(planter, cast)
    found = _found(planter)
    assert {violation.rule for violation in found} == {rule}
    named = {code for violation in found for code in violation.jobs}
    assert job.code in named or not named


def test_every_rule_has_its_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED} == set(Rule)


def test_a_limit_of_a_server_is_told_apart_from_the_overall_one(planter: Planter, cast: Cast) -> None:
    _four_places_of_three(planter, cast)
    (found,) = _found(planter, Expected(overall=4, per_server=3))
    assert found.rule == Rule.LIMITS and f"(server {cast.server.pk})" in found.sentence
    assert len(found.jobs) == 4


def test_events_without_word_of_the_move_are_understood(planter: Planter, cast: Cast) -> None:
    planter.tells = False
    _two_changes_on_one_site(planter, cast)
    _four_places_of_three(planter, cast)
    assert {violation.rule for violation in _found(planter)} == {Rule.CONFLICTS, Rule.LIMITS}


def test_where_no_recovery_has_run_jobs_may_be_held(planter: Planter, cast: Cast) -> None:
    _still_running(planter, cast)
    assert _found(planter, Expected(may_run=True)) == []


@pytest.mark.parametrize("status", [Status.QUEUED, Status.ORPHANED])
def test_where_all_must_have_ended_none_may_wait(planter: Planter, cast: Cast, status: Status) -> None:
    job = planter.job(cast.site, "CHANGE")
    if status == Status.ORPHANED:
        planter.claim(job)
        planter.move(job, Status.ORPHANED)
    (found,) = _found(planter, Expected(all_ended=True))
    assert found.rule == Rule.LEFTOVER


def test_an_entry_of_a_job_that_never_was_is_found(planter: Planter, cast: Cast) -> None:
    job = planter.job(cast.site)
    Job.objects.filter(pk=job.pk).delete()
    assert [violation.rule for violation in _found(planter)] == [Rule.AUDIT]

"""Failures that other job engines had, as far as no other test of ours tells of them: one test per row.

At the end stand the faults that were found with them.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import IntegrityError, connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from environs import Env
from pytest_django import Settings

from accounts.actor import Actor, actor_for, operator
from audit.clock import database_now
from chp_site.environment import whole
from jobs import bookkeeping, chain, pipeline, policy_changes, queue, recovery, registry, waiting
from jobs.bookkeeping import discrepancies
from jobs.exceptions import Invalid, InvalidPayload, WrongState
from jobs.execution import run_attempt
from jobs.models import EventType, Job, JobDependency, JobEvent, JobPolicy
from jobs.operation import Context, Result
from jobs.profile import Priority
from jobs.queue import claim
from jobs.request import MAX_PAYLOAD_BYTES, JobRequest, canonical
from jobs.states import Readiness, Status
from sites.models import Site
from tests.builders import make_site
from tests.cast import Cast
from tests.engine.invariants import violations
from tests.engine.violation import Expected
from tests.jobs.sample_operations import Sample, SamplePayload
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("root")


def _copies(job: Job, number: int, **change: object) -> list[Job]:
    job.refresh_from_db()
    skipped = ("id", "uuid", "idempotency_key", "plan")
    columns = {
        field.attname: getattr(job, field.attname)
        for field in Job._meta.concrete_fields
        if field.name not in skipped
    }
    return Job.objects.bulk_create([Job(**columns | change) for _ in range(number)], batch_size=500)


def _claim(places: int = 4) -> list[Job]:
    return claim(worker(), range(places), registry.known_types())


def _run(job: Job) -> Job:
    run_attempt(job.pk, job.claim_token)
    job.refresh_from_db()
    return job


def _states(*jobs: Job) -> list[str]:
    return [Job.objects.get(pk=job.pk).status for job in jobs]


# --- B: dead workers -----------------------------------------------------------------------------
def test_one_sweep_finds_a_stale_job_among_a_thousand_that_are_exempt(cast: Cast) -> None:
    """Queue B6."""
    exempt = claimed(cast.site, "SAMPLE_LOOK")
    old = database_now() - timedelta(minutes=30)
    _copies(exempt, 1000, heartbeat_at=old, stale_seconds=7200)
    (stale,) = _copies(exempt, 1, heartbeat_at=old + timedelta(seconds=1))
    assert [job.pk for job in recovery.sweep()] == [stale.pk]
    assert Job.objects.filter(status=Status.RUNNING).count() == 1001


@pytest.mark.parametrize(("kind", "status"), [("SAMPLE", Status.QUEUED), ("SAMPLE_CHANGE", Status.ORPHANED)])
def test_a_sweeper_that_does_not_know_a_type_goes_by_the_row(
    cast: Cast, settings: Settings, kind: str, status: Status
) -> None:
    """Queue B7: the policy travels with the job, so nothing is discarded or judged by a default."""
    job = claimed(cast.site, kind)
    Job.objects.filter(pk=job.pk).update(
        job_type="FROM_A_NEWER_RELEASE", heartbeat_at=database_now() - timedelta(hours=1)
    )
    assert [found.pk for found in recovery.sweep()] == [job.pk]
    assert _states(job) == [status]


# --- C: one transaction --------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_what_is_asked_for_and_what_the_caller_notes_of_it_are_one(cast: Cast) -> None:
    """Queue C3, F6: a schedule's note of its slot and the slot's job are there together, or neither is."""
    request = JobRequest("SAMPLE", cast.site.pk, system_key="SAMPLE:7:DAILY:2026-08-13")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        pipeline.submit(ROOT, request)
        Site.objects.filter(pk=cast.site.pk).update(display_domain="noted.test")
        _ = 1 / 0
    assert (Job.objects.count(), Site.objects.filter(display_domain="noted.test").count()) == (0, 0)
    assert pipeline.submit(ROOT, request).created
    assert not pipeline.submit(ROOT, request).created


def test_a_slot_that_is_asked_for_again_is_not_done_twice(cast: Cast) -> None:
    """Queue C4, F5: also once its job has ended."""
    request = JobRequest("SAMPLE", cast.site.pk, system_key="SAMPLE:7:DAILY:2026-08-13")
    first = pipeline.submit(ROOT, request).job
    moved(_claim()[0], Status.SUCCESS, result={})
    again = pipeline.submit(ROOT, request)
    assert (again.job.pk, again.created, Job.objects.count()) == (first.pk, False, 1)


# --- D: cancellation and limits of time ----------------------------------------------------------
@pytest.mark.parametrize("which", [0, 1, 2])
def test_when_one_of_three_is_called_off_nobody_goes_on_waiting_for_it(cast: Cast, which: int) -> None:
    """Queue D7."""
    parents = [submitted(make_site(cast, f"p{number}.test")) for number in range(3)]
    last = submitted(cast.site, after=tuple(job.code for job in parents))
    after_it = submitted(cast.foreign_site, after=(last.code,))
    pipeline.cancel(ROOT, parents[which].pk, "not needed")
    assert _states(last, after_it) == [Status.CANCELLED, Status.CANCELLED]
    last.refresh_from_db()
    assert (last.cancelled_with, last.error_code) == (parents[which], "parent_ended")
    assert parents[which].code in last.error_message


def test_a_job_that_was_called_off_with_another_names_it_when_retried(cast: Cast) -> None:
    """Queue D12: and comes back with it."""
    parent = submitted(cast.site)
    child = submitted(cast.foreign_site, after=(parent.code,))
    moved(_claim()[0], Status.FAILED)
    with pytest.raises(WrongState, match=f"called off with {parent.code}"):
        pipeline.retry(ROOT, child.pk, "again")
    pipeline.retry(ROOT, parent.pk, "again")
    assert _states(parent, child) == [Status.QUEUED, Status.QUEUED]


@pytest.mark.parametrize("seconds", [0, 0.5, -1, 10**12])
def test_a_timeout_that_means_nothing_is_refused(cast: Cast, seconds: Any) -> None:
    """Queue D10."""
    policy = JobPolicy(job_type="SAMPLE", timeout_seconds=seconds)
    with pytest.raises(ValidationError, match="timeout_seconds"):
        policy_changes.save_job_policy(actor_for(cast.staff, "admin"), policy)
    assert not JobPolicy.objects.exists()


@pytest.mark.parametrize("delays", [[0.5], [-1], [10**12], [True], ["60"], 60, [0] * 21])
def test_delays_that_mean_nothing_are_refused_and_zero_is_zero(cast: Cast, delays: Any) -> None:
    """Queue D10."""
    staff = actor_for(cast.staff, "admin")
    with pytest.raises(ValidationError, match="retry_delays"):
        policy_changes.save_job_policy(staff, JobPolicy(job_type="SAMPLE", retry_delays=delays))
    policy_changes.save_job_policy(staff, JobPolicy(job_type="SAMPLE", retry_delays=[0]))
    assert submitted(cast.site).retry_delays == [0]


@pytest.mark.parametrize("field", ["concurrency", "concurrency_per_server", "max_attempts"])
def test_a_negative_number_of_anything_is_refused(cast: Cast, field: str) -> None:
    """Queue D10."""
    with pytest.raises(ValidationError, match=field):
        policy_changes.save_job_policy(
            actor_for(cast.staff, "admin"), JobPolicy(job_type="SAMPLE", **{field: -1})
        )


def test_a_limit_of_nothing_is_a_limit_and_not_its_absence(cast: Cast) -> None:
    """Queue D10, I9: 0 and empty differ."""
    job = submitted(cast.site)
    JobPolicy.objects.create(job_type="SAMPLE", concurrency=0)
    assert _claim() == []
    assert waiting.explain([job])[job.pk] == "SAMPLE limit 0 of 0"
    JobPolicy.objects.update(concurrency=None)
    assert len(_claim()) == 1


# --- E: conflicts, locks, dependencies -----------------------------------------------------------
def test_a_retry_beside_a_newer_job_of_its_kind_stands_in_line(cast: Cast) -> None:
    """Queue E4: no uniqueness counts queued jobs, so neither a retry nor a sweep can clash with one."""
    old = moved(claimed(cast.site), Status.FAILED)
    newer = submitted(cast.site)
    pipeline.retry(ROOT, old.pk, "again")
    assert [job.pk for job in _claim()] == [newer.pk]
    assert waiting.explain([Job.objects.get(pk=old.pk)])[old.pk].startswith(f"behind {newer.code}")


def test_a_sweep_sees_to_all_also_where_one_cannot_be_moved(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue E4: one of ten has moved on, the other nine are rescued."""
    sites = [make_site(cast, f"s{number}.test") for number in range(10)]
    for site in sites:
        submitted(site, "SAMPLE_LOOK")
    jobs = _take_all(10)
    Job.objects.update(heartbeat_at=database_now() - timedelta(hours=1))
    lose, passed = recovery.lose, jobs[4].pk

    def meanwhile(job: Job, why: str) -> bool:
        Job.objects.filter(pk=passed).update(claim_token="2:newer")
        return lose(job, why)

    monkeypatch.setattr(recovery, "lose", meanwhile)
    assert len(recovery.sweep()) == 9
    assert Job.objects.filter(status=Status.RUNNING).count() == 1


def _take_all(number: int) -> list[Job]:
    with override_settings(MAX_WORKERS=64):
        return _claim(number)


def test_a_lost_change_that_was_seen_to_leaves_nothing_locked(cast: Cast) -> None:
    """Queue E7: what keeps a site closed is counted from rows of jobs; nothing else can leak."""
    orphan = moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    waits = submitted(cast.site)
    assert _claim() == []
    pipeline.resolve(ROOT, orphan.pk, Status.RESOLVED, "looked at")
    (taken,) = _claim()
    assert (taken.pk, _run(taken).status) == (waits.pk, Status.SUCCESS)
    with connection.cursor() as cursor:
        cursor.execute("SELECT SUM(exclusive + mutating + shared) FROM jobs_sitegate")
        assert cursor.fetchone()[0] == 0


def test_calling_off_many_that_wait_gives_no_more_places(cast: Cast, settings: Settings) -> None:
    """Queue E9: limit 1; ten that wait are called off in bulk, then three are asked for: one runs."""
    settings.CHP_TYPE_LIMITS = {"SAMPLE": 1}
    running = claimed(make_site(cast, "running.test"))
    for job in [submitted(make_site(cast, f"s{number}.test")) for number in range(10)]:
        pipeline.cancel(ROOT, job.pk, "x")
    for number in range(3):
        submitted(make_site(cast, f"n{number}.test"))
    assert _claim() == []
    moved(running, Status.SUCCESS, result={})
    assert (len(_claim()), len(_claim())) == (1, 0)


def test_what_is_scheduled_for_next_week_or_waits_to_be_repeated_holds_nothing_up(cast: Cast) -> None:
    """Queue E10."""
    submitted(cast.site, scheduled_at=database_now() + timedelta(days=7))
    repeated = claimed(cast.site, payload={"how": "fail"})
    Job.objects.filter(pk=repeated.pk).update(retry_delays=[3600])
    assert _run(repeated).readiness == Readiness.LATER
    now = submitted(cast.site)
    assert [job.pk for job in _claim()] == [now.pk]


def test_the_single_job_of_one_customer_starts_in_spite_of_anothers_thousand(cast: Cast) -> None:
    """Queue E12: the second that is handed out is the other customer's."""
    first = submitted(cast.site, "SAMPLE_LOOK")
    rows = _copies(first, 999)
    for turn, job in enumerate(rows, start=first.turn + 1):
        job.turn = turn
    Job.objects.bulk_update(rows, ["turn"], batch_size=500)
    single = submitted(cast.foreign_site, "SAMPLE_LOOK")
    assert single.pk in {job.pk for job in _claim(2)}


def test_customers_take_turns_also_when_one_comes_late(cast: Cast, settings: Settings) -> None:
    """Queue E12."""
    settings.MAX_WORKERS = 64
    for _ in range(6):
        submitted(cast.site, "SAMPLE_LOOK")
    _claim(3)
    late = [submitted(cast.foreign_site, "SAMPLE_LOOK") for _ in range(2)]
    order = [job.customer_id for job in _claim(4)]
    assert order.count(late[0].customer_id) == 2


CIRCLES: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "a -> a": [("a", ("a",))],
    "a -> b -> a": [("a", ("b",)), ("b", ("a",))],
    "a -> b -> c -> a": [("a", ("b",)), ("b", ("c",)), ("c", ("a",))],
    "b -> c -> b": [("a", ("b",)), ("b", ("c",)), ("c", ("b",))],
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_is_refused_with_its_path(cast: Cast, circle: str) -> None:
    """Queue E13."""
    requests = [
        JobRequest("SAMPLE", cast.site.pk, label=label, after=after) for label, after in CIRCLES[circle]
    ]
    with pytest.raises(Invalid, match=f"circle: {circle}"):
        pipeline.submit_chain(ROOT, requests)
    assert not Job.objects.exists()


def test_rows_can_form_no_circle_by_update_either(cast: Cast) -> None:
    """Queue E13: no function changes a dependency, and the database refuses the shortest circle."""
    parent = submitted(cast.site)
    child = submitted(cast.foreign_site, after=(parent.code,))
    with pytest.raises(IntegrityError), transaction.atomic():
        JobDependency.objects.filter(job=child).update(parent=child)
    with pytest.raises(Invalid, match=r"from 1 to \d+ jobs"):
        chain.ordered([])


def test_a_failure_in_the_middle_of_a_chain_ends_all_behind_it_at_once(cast: Cast) -> None:
    """Queue E16."""
    requests = [
        JobRequest(
            "SAMPLE", cast.site.pk, {"how": "refuse"} if label == "b" else {}, label=label, after=after
        )
        for label, how, after in [
            ("a", "work", ()),
            ("b", "refuse", ("a",)),
            ("c", "work", ("b",)),
            ("d", "work", ("c",)),
            ("e", "work", ("a", "d")),
        ]
    ]
    jobs = [one.job for one in pipeline.submit_chain(ROOT, requests)]
    for _ in range(2):
        _run(_claim()[0])
    assert _states(*jobs) == [Status.SUCCESS, Status.FAILED, *[Status.CANCELLED] * 3]
    assert violations(Expected(all_ended=True)) == []


# --- F: time -------------------------------------------------------------------------------------
def test_times_written_by_hand_and_by_the_engine_compare_alike(cast: Cast) -> None:
    """Queue F11: SQLite keeps times as text; raw SQL, the engine and the ORM agree on what is due."""
    job = submitted(cast.site, scheduled_at=database_now() + timedelta(hours=1))
    earlier = submitted(make_site(cast, "other.test"), scheduled_at=database_now() + timedelta(hours=2))
    past = connection.ops.adapt_datetimefield_value(database_now() - timedelta(seconds=1))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET scheduled_at = %s WHERE id = %s", [past, earlier.pk])
    assert queue.look().due_in is not None
    assert [found.pk for found in _claim()] == [earlier.pk]
    Job.objects.filter(pk=job.pk).update(scheduled_at=database_now())
    assert [found.pk for found in _claim()] == [job.pk]
    assert Job.objects.get(pk=job.pk).completed_at is None


# --- G: payloads, results, errors ----------------------------------------------------------------
class Odd(Sample):
    """Gives or raises whatever the test wants."""

    act: ClassVar[Callable[[], Result]]

    def run(self, context: Context, payload: SamplePayload) -> Result:
        return type(self).act()


@pytest.fixture
def odd(
    monkeypatch: pytest.MonkeyPatch, cast: Cast, caplog: pytest.LogCaptureFixture
) -> Callable[[Callable[[], Any]], Job]:
    """Give a function that runs a job whose work is what it is handed."""
    # What it logs cannot be carried in a test's report.
    caplog.set_level(logging.CRITICAL, logger="jobs.execution")

    def run(act: Callable[[], Any]) -> Job:
        job = claimed(cast.site)
        monkeypatch.setitem(registry.operations(), "SAMPLE", Odd())
        monkeypatch.setattr(Odd, "act", staticmethod(act), raising=False)
        return _run(job)

    return run


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_result_that_is_no_json_is_stored_as_text(odd: Callable[..., Job], number: object) -> None:
    """Queue G2: on both databases alike."""
    job = odd(lambda: {"value": number, "deep": [{"x": number}]})
    assert job.status == Status.SUCCESS
    assert json.loads(json.dumps(job.result, allow_nan=False)) == job.result
    assert isinstance(job.result["value"], str)


def test_a_result_of_ten_megabytes_is_cut_and_says_so(odd: Callable[..., Job]) -> None:
    """Queue G3."""
    job = odd(lambda: {"log": "x" * 10_000_000, "lines": ["y" * 100] * 100_000})
    assert job.status == Status.SUCCESS
    assert len(canonical(job.result)) <= 64_000
    assert "cut" in json.dumps(job.result)


@pytest.mark.parametrize(("more", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_payload_at_its_limit_is_taken_and_beyond_it_refused(cast: Cast, more: int, fits: bool) -> None:
    """Queue G5."""
    room = MAX_PAYLOAD_BYTES - len(canonical({"mark": ""}))
    payload = {"mark": "x" * (room + more)}
    if fits:
        assert submitted(cast.site, payload=payload).payload["mark"] == payload["mark"]
        return
    with pytest.raises(InvalidPayload, match=f"at most {MAX_PAYLOAD_BYTES}"):
        submitted(cast.site, payload=payload)


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class BadReduce(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no copy")


def _raise(error: BaseException) -> Callable[[], Result]:
    def act() -> Result:
        raise error

    return act


def _in_a_circle() -> Result:
    error = ValueError("circle")
    other = ValueError("other")
    error.__cause__, other.__cause__ = other, error
    raise error


def _without_end() -> Result:
    return _without_end()


@pytest.mark.parametrize(
    "act",
    [
        _raise(BadText("x")),
        _raise(BadReduce("x")),
        _in_a_circle,
        _without_end,
        _raise(ValueError("\ud800\0")),
    ],
    ids=["no text", "no copy", "circle", "without end", "unstorable"],
)
def test_an_error_that_cannot_be_told_ends_the_job_all_the_same(
    odd: Callable[..., Job], act: Callable[[], Result]
) -> None:
    """Queue G6."""
    job = odd(act)
    assert (job.status, job.error_code) == (Status.FAILED, "internal")
    assert job.error_message.startswith("internal error: ")


@pytest.mark.parametrize(
    "key", ["task", "id", "site", "__proto__", "self", "\U0001f4a9", "\u202eabc", "version "]
)
def test_a_key_of_any_name_is_refused_by_name_and_never_taken_for_ours(cast: Cast, key: str) -> None:
    """Queue G8."""
    with pytest.raises(InvalidPayload) as refused:
        submitted(cast.site, payload={key: 7})
    assert [line["message"] for line in refused.value.errors] == ["this key is not known"]
    assert refused.value.errors[0]["key"]


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_a_payload_of_any_depth_is_refused_in_a_sentence(cast: Cast, depth: int) -> None:
    """Queue G8."""
    nested: Any = "x"
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(InvalidPayload):
        submitted(cast.site, payload={"mark": nested})
    assert not Job.objects.exists()


def test_a_retry_keeps_what_was_asked_for_and_by_whom(cast: Cast) -> None:
    """Queue G9: each attempt is a record of its own, in the history."""
    actor: Actor = actor_for(cast.owner, "api")
    request = JobRequest("SAMPLE", cast.site.pk, {"how": "refuse"}, idempotency_key="k", reason="before")
    job = pipeline.submit(actor, request).job
    _run(_claim()[0])
    pipeline.retry(actor_for(cast.staff, "panel"), job.pk, "again")
    again = Job.objects.get(pk=job.pk)
    kept = (
        "payload",
        "requested_by",
        "requested_by_user_id",
        "created_at",
        "idempotency_key",
        "reason",
        "uuid",
    )
    assert [getattr(again, name) for name in kept] == [getattr(job, name) for name in kept]
    _run(_claim()[0])
    claims = JobEvent.objects.filter(job=job, event_type=EventType.CLAIMED)
    assert list(claims.values_list("epoch", flat=True)) == [1, 2]


# --- H: drift of code ----------------------------------------------------------------------------
def test_a_type_that_only_a_newer_worker_knows_waits_for_it(cast: Cast) -> None:
    """Queue H2: no attempt is spent, and the old worker's other work goes on."""
    new, other = submitted(cast.site, "SAMPLE_CHANGE"), submitted(cast.foreign_site)
    assert [job.pk for job in claim(worker(), range(2), ["SAMPLE"])] == [other.pk]
    waits = Job.objects.get(pk=new.pk)
    assert (waits.status, waits.attempt, waits.epoch) == (Status.QUEUED, 0, 0)
    assert [job.pk for job in claim(worker(), range(2), ["SAMPLE_CHANGE"])] == [new.pk]


# --- I: scale ------------------------------------------------------------------------------------
def test_ten_thousand_shut_out_hide_the_one_that_is_free_from_no_claim(cast: Cast) -> None:
    """Queue I7: one call, as many queries as for one."""
    moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)
    shut_out = submitted(cast.site, "SAMPLE_LOOK", priority=Priority.CRITICAL)
    few = _cost_of_the_free_one(cast)
    _copies(shut_out, 10_000)
    assert _cost_of_the_free_one(cast) == few


def _cost_of_the_free_one(cast: Cast) -> int:
    free, who = submitted(cast.foreign_site, "SAMPLE_LOOK", priority=Priority.LOW), worker()
    with CaptureQueriesContext(connection) as captured:
        taken = claim(who, [0], registry.known_types())
    assert [job.pk for job in taken] == [free.pk]
    moved(taken[0], Status.SUCCESS, result={})
    return len(captured)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("1", 1), (None, 180), ("", "must be"), ("-1", "must be"), ("1.5", "whole")]
)
def test_no_days_and_no_word_of_days_differ(
    monkeypatch: pytest.MonkeyPatch, text: str | None, value: int | str
) -> None:
    """Queue I9: of CHP_JOB_RETENTION_DAYS and every other whole number of the settings."""
    monkeypatch.delenv("CHP_JOB_RETENTION_DAYS", raising=False)
    if text is not None:
        monkeypatch.setitem(os.environ, "CHP_JOB_RETENTION_DAYS", text)
    if isinstance(value, int):
        assert whole(Env(), "CHP_JOB_RETENTION_DAYS", 180, 0, 36_500) == value
        return
    with pytest.raises(ImproperlyConfigured, match=f"CHP_JOB_RETENTION_DAYS.*{value}"):
        whole(Env(), "CHP_JOB_RETENTION_DAYS", 180, 0, 36_500)


# --- J: the trail --------------------------------------------------------------------------------
def test_a_state_that_was_changed_behind_the_engines_back_is_found(cast: Cast) -> None:
    """Queue J5: rows and trail are compared, by the check of tests/engine and by the product's own."""
    job, other = submitted(cast.site), submitted(cast.foreign_site)
    moved(other, Status.CANCELLED)
    assert violations(Expected()) == []
    assert list(discrepancies()) == []
    Job.objects.filter(pk=job.pk).update(status=Status.SUCCESS, readiness="", result={})
    assert {violation.jobs for violation in violations(Expected())} == {(job.code,)}
    assert [(one.job, one.told) for one in discrepancies()] == [(job, "QUEUED")]


def test_what_moves_while_it_is_compared_is_no_discrepancy(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue J5: the row is read, then the job moves, then its entries are read."""
    job = submitted(cast.site)
    reads = bookkeeping._told

    def moves_first(jobs: Sequence[Job]) -> dict[str, str]:
        if Job.objects.get(pk=job.pk).status == Status.QUEUED:
            moved(job, Status.RUNNING)
        return reads(jobs)

    monkeypatch.setattr(bookkeeping, "_told", moves_first)
    assert list(discrepancies()) == []


# --- K: SQLite -----------------------------------------------------------------------------------
def test_who_only_reads_takes_no_lock(cast: Cast) -> None:
    """Queue K2: lists and reasons are read outside of any transaction."""
    jobs = [submitted(cast.site), submitted(cast.site)]
    with CaptureQueriesContext(connection) as captured:
        assert len(waiting.explain(jobs)) == 2
    assert captured.captured_queries
    began = ("BEGIN", "SAVEPOINT", "UPDATE", "INSERT", "DELETE")
    assert [query["sql"] for query in captured if query["sql"].upper().startswith(began)] == []


def test_what_comes_back_with_one_parent_does_not_wait_for_another_that_has_failed(cast: Cast) -> None:
    """Queue D7, E16: it would wait for ever. It comes back with the other one."""
    first, second = submitted(cast.site), submitted(cast.foreign_site)
    child = submitted(make_site(cast, "child.test"), after=(first.code, second.code))
    grandchild = submitted(make_site(cast, "grandchild.test"), after=(child.code,))
    for job in _claim(2):
        moved(job, Status.FAILED)
    pipeline.retry(ROOT, first.pk, "again")
    assert _states(first, child, grandchild) == [Status.QUEUED, Status.CANCELLED, Status.CANCELLED]
    pipeline.retry(ROOT, second.pk, "again")
    assert _states(child, grandchild) == [Status.QUEUED, Status.QUEUED]
    assert Job.objects.get(pk=child.pk).readiness == Readiness.PARENT


class BadRepr(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_words_ends_the_job_all_the_same(odd: Callable[..., Job]) -> None:
    """Queue G6: it must not end the slot."""
    with suppress(RuntimeError):
        odd(_raise(BadRepr("x")))
    assert Job.objects.get().status == Status.FAILED


def test_a_cancelled_job_that_is_handed_back_is_cancelled_at_once(cast: Cast) -> None:
    """Queue D3, D4: it was not begun, and nobody else would look at it before its silence is noticed."""
    job = claimed(cast.site)
    pipeline.cancel(ROOT, job.pk, "not needed")
    recovery.hand_back([Job.objects.get(pk=job.pk)], "another job of the same slot took long")
    assert _states(job) == [Status.CANCELLED]

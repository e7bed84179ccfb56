"""Rule 4: a job is created in one place, after its checks, with event and audit entry, once per key."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import transaction

from accounts.actor import actor_for, operator
from audit.actions import Action
from audit.models import AuditEntry
from jobs import pipeline
from jobs.exceptions import (
    Forbidden,
    Invalid,
    InvalidPayload,
    KeyConflict,
    NotVisible,
    Refused,
    UnknownOperation,
)
from jobs.models import EventType, Job, JobEvent
from jobs.profile import Priority
from jobs.request import JobRequest
from jobs.states import Status
from tests.cast import Cast

pytestmark = pytest.mark.django_db


def _ask(cast: Cast, operation: str = "SAMPLE", payload: Mapping[str, Any] | None = None, **more: Any) -> Job:
    request = JobRequest(operation, more.pop("site_id", cast.site.pk), payload or {}, **more)
    return pipeline.submit(actor_for(cast.owner, "api"), request).job


def test_a_job_has_its_event_and_its_audit_entry(cast: Cast) -> None:
    job = _ask(cast, reason="before an upgrade")
    event = JobEvent.objects.get(job=job)
    entry = AuditEntry.objects.latest("sequence")
    assert (job.status, event.event_type) == (Status.QUEUED, EventType.CREATED)
    assert (entry.action, entry.target, entry.reason) == (Action.JOB_ENQUEUED, job.code, "before an upgrade")
    assert entry.tenant == cast.customer.code


def test_the_policy_in_force_travels_with_the_job(cast: Cast) -> None:
    job = _ask(cast)
    assert (job.max_attempts, job.timeout_seconds, job.on_lost, job.lock, job.mutating) == (
        3,
        60,
        "REQUEUE",
        "EXCLUSIVE",
        False,
    )


def test_the_same_key_and_body_give_the_same_job(cast: Cast) -> None:
    first = _ask(cast, idempotency_key="k1")
    again = _ask(cast, idempotency_key="k1")
    assert first.pk == again.pk
    assert AuditEntry.objects.filter(action=Action.JOB_ENQUEUED).count() == 1


def test_the_same_key_with_another_body_is_refused(cast: Cast) -> None:
    _ask(cast, idempotency_key="k1")
    with pytest.raises(KeyConflict, match="another body"):
        _ask(cast, payload={"how": "fail"}, idempotency_key="k1")


def test_a_key_belongs_to_who_asked_and_for_which_site(cast: Cast) -> None:
    """Queue E3."""
    mine = _ask(cast, idempotency_key="k1")
    request = JobRequest("SAMPLE", cast.site.pk, idempotency_key="k1")
    theirs = pipeline.submit(actor_for(cast.staff, "api"), request).job
    other_site = pipeline.submit(
        actor_for(cast.staff, "api"), JobRequest("SAMPLE", cast.foreign_site.pk, idempotency_key="k1")
    ).job
    assert len({mine.pk, theirs.pk, other_site.pk}) == 3


WRONG: list[tuple[str, dict[str, Any], type[Refused], str]] = [
    ("unknown type", {"operation": "NO_SUCH"}, UnknownOperation, "Unknown job type: NO_SUCH"),
    ("extra key", {"payload": {"colour": "red"}}, InvalidPayload, "colour: this key is not known"),
    ("a command", {"payload": {"command": "rm -rf /"}}, InvalidPayload, "command: this key is not known"),
    ("wrong type", {"payload": {"seconds": "long"}}, InvalidPayload, "seconds"),
    ("NUL", {"payload": {"mark": "a\0b"}}, InvalidPayload, "NUL"),
    ("NUL in the reason", {"reason": "a\0b"}, Invalid, "control character"),
    ("lone surrogate", {"payload": {"mark": "\ud800"}}, InvalidPayload, "broken character"),
    ("not a number", {"payload": {"seconds": float("nan")}}, InvalidPayload, "not plain JSON"),
    ("10 MB", {"payload": {"mark": "x" * 10_000_000}}, InvalidPayload, "at most 65536"),
    ("10 MB of reason", {"reason": "x" * 10_000_000}, Invalid, "at most 1000"),
    ("too long a key", {"idempotency_key": "k" * 500}, Invalid, "at most 120"),
    ("priority above", {"priority": Priority.CRITICAL}, Forbidden, "Only staff"),
    ("missing site", {"site_id": 2**70}, NotVisible, "no site"),
    ("negative site", {"site_id": -1}, NotVisible, "no site"),
]


@pytest.mark.parametrize(("wish", "kind", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_input_is_refused_leaves_no_job_and_is_in_the_trail(
    cast: Cast, wish: dict[str, Any], kind: type[Refused], words: str
) -> None:
    with pytest.raises(kind, match=words):
        _ask(cast, **wish)
    denial = AuditEntry.objects.latest("sequence")
    assert not Job.objects.exists()
    assert (denial.action, denial.result) == (Action.ACCESS_DENIED, kind.code)
    assert cast.owner.username in denial.actor
    assert len(denial.reason) < 3000


def test_another_tenants_site_is_as_good_as_missing(cast: Cast) -> None:
    with pytest.raises(NotVisible) as foreign:
        _ask(cast, site_id=cast.foreign_site.pk)
    with pytest.raises(NotVisible) as missing:
        _ask(cast, site_id=999_999)
    assert str(foreign.value).replace(str(cast.foreign_site.pk), "N") == str(missing.value).replace(
        "999999", "N"
    )
    denials = AuditEntry.objects.filter(action=Action.ACCESS_DENIED).order_by("sequence")
    assert f"site:{cast.foreign_site.pk} of {cast.other_customer.code}" in denials[0].target
    assert denials[0].tenant == ""


@pytest.mark.parametrize("who", ["viewer", "onlooker"])
def test_who_may_only_look_is_refused_with_the_missing_right(cast: Cast, who: str) -> None:
    actor = actor_for(getattr(cast, who), "panel")
    with pytest.raises(Forbidden, match="the right BACKUP is missing"):
        pipeline.submit(actor, JobRequest("SAMPLE", cast.site.pk))


def test_a_site_without_the_capability_refuses_even_the_operator(cast: Cast) -> None:
    with pytest.raises(Forbidden, match="lack RESTORE"):
        pipeline.submit(operator("root"), JobRequest("SAMPLE_CHANGE", cast.read_only_site.pk))


def test_a_member_who_lost_the_role_is_refused_at_once(cast: Cast) -> None:
    cast.owner.memberships.all().delete()
    with pytest.raises(NotVisible):
        _ask(cast)


def test_a_deactivated_user_is_nobody(cast: Cast) -> None:
    cast.owner.is_active = False
    cast.owner.save()
    with pytest.raises(NotVisible):
        _ask(cast)


@pytest.mark.django_db(transaction=True)
def test_a_job_of_a_rolled_back_transaction_never_was(cast: Cast) -> None:
    entries = AuditEntry.objects.count()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _ask(cast)
        _ = 1 / 0
    assert not Job.objects.exists()
    assert not JobEvent.objects.exists()
    assert AuditEntry.objects.count() == entries


@pytest.mark.django_db(transaction=True)
def test_a_refusal_inside_the_callers_transaction_is_recorded_by_the_caller(cast: Cast) -> None:
    """Rule 15: a denial has its own transaction, since the refused one is rolled back."""
    actor, request = actor_for(cast.viewer, "api"), JobRequest("SAMPLE", cast.site.pk)
    with pytest.raises(Forbidden) as refused, transaction.atomic():
        pipeline.submit(actor, request)
    assert not AuditEntry.objects.filter(action=Action.ACCESS_DENIED).exists()
    pipeline.record_refusal(actor, request, refused.value)
    assert AuditEntry.objects.filter(action=Action.ACCESS_DENIED).count() == 1


def test_a_preview_says_what_would_be_done_and_writes_nothing(cast: Cast) -> None:
    preview = pipeline.preview(actor_for(cast.owner, "panel"), JobRequest("SAMPLE", cast.site.pk))
    assert [step.sentence for step in preview.intention.steps] == [f"Work on {cast.site}."]
    assert not Job.objects.exists()


def test_submitting_takes_a_fixed_number_of_queries(cast: Cast, django_assert_max_num_queries: Any) -> None:
    _ask(cast)
    with django_assert_max_num_queries(18):
        _ask(cast, idempotency_key="counted")

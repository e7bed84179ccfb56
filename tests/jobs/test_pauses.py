"""Pauses hold work back from the moment they return, say who and why, and touch nothing that runs."""

import pytest

from accounts.actor import Actor, actor_for, operator
from accounts.exceptions import NotAllowed
from audit.models import AuditEntry
from jobs import pauses, waiting
from jobs.exceptions import Invalid, WrongState
from jobs.models import Job, PauseScope
from jobs.pauses import Target
from jobs.queue import claim
from jobs.states import Readiness, Status
from tests.cast import Cast
from tests.jobs.samples import claimed, moved, submitted, worker

pytestmark = pytest.mark.django_db
ROOT = operator("alice")
SCOPES = ["all", "type", "server", "site"]


def _target(cast: Cast, scope: str) -> Target:
    return {
        "all": Target(PauseScope.ALL),
        "type": Target(PauseScope.TYPE, job_type="SAMPLE"),
        "server": Target(PauseScope.SERVER, server=cast.server),
        "site": Target(PauseScope.SITE, site=cast.site),
    }[scope]


def _taken() -> list[int]:
    return [job.pk for job in claim(worker(), range(4), ["SAMPLE", "SAMPLE_LOOK"])]


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_paused_waits_with_its_reason_and_goes_on_when_resumed(cast: Cast, scope: str) -> None:
    before = submitted(cast.site)
    pauses.pause(ROOT, _target(cast, scope), "the disk is being changed")
    after = submitted(cast.site, "SAMPLE" if scope == "type" else "SAMPLE_LOOK")
    assert _taken() == []
    for job in Job.objects.all():
        reason = waiting.explain([job], ROOT)[job.pk]
        assert "paused by alice (command) since " in reason
        assert reason.endswith("the disk is being changed")
    pauses.resume(ROOT, _target(cast, scope), "changed")
    expected = {before.pk} if scope == "type" else {before.pk, after.pk}
    assert set(_taken()) == expected


@pytest.mark.parametrize("scope", ["type", "server", "site"])
def test_what_is_not_meant_goes_on(cast: Cast, scope: str) -> None:
    pauses.pause(ROOT, _target(cast, scope), "why not")
    other = submitted(cast.foreign_site, "SAMPLE_LOOK")
    assert (_taken() == [other.pk]) == (scope != "server")


def test_what_runs_goes_on_and_what_it_held_up_is_paused_when_it_ends(cast: Cast) -> None:
    change = claimed(cast.site, "SAMPLE_CHANGE")
    waits = submitted(cast.site)
    pauses.pause(ROOT, _target(cast, "site"), "wait")
    moved(change, Status.SUCCESS)
    waits.refresh_from_db()
    assert waits.readiness == Readiness.PAUSED
    pauses.resume(ROOT, _target(cast, "site"), "go")
    assert _taken() == [waits.pk]


def test_both_acts_are_in_the_trail_with_their_reason(cast: Cast) -> None:
    pauses.pause(ROOT, _target(cast, "site"), "wait for it")
    pauses.resume(ROOT, _target(cast, "site"), "it came")
    entries = AuditEntry.objects.filter(target=f"pause:site:{cast.site.pk}").order_by("sequence")
    found = [(entry.action, entry.actor, entry.reason) for entry in entries]
    who = "alice (command)"
    assert found == [("jobs.paused", who, "wait for it"), ("jobs.resumed", who, "it came")]


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2000, "two\nlines"])
def test_a_reason_is_asked_for(cast: Cast, reason: str) -> None:
    with pytest.raises(Invalid, match="Say why"):
        pauses.pause(ROOT, _target(cast, "all"), reason)
    assert not pauses.in_force().everything


def test_pausing_twice_and_resuming_what_goes_on_are_told(cast: Cast) -> None:
    pauses.pause(ROOT, _target(cast, "type"), "once")
    with pytest.raises(WrongState, match="Paused already: SAMPLE, by alice"):
        pauses.pause(ROOT, _target(cast, "type"), "twice")
    with pytest.raises(WrongState, match="Not paused: everything"):
        pauses.resume(ROOT, _target(cast, "all"), "go")


@pytest.mark.parametrize("who", ["owner", "onlooker"])
def test_customers_may_not_pause(cast: Cast, who: str) -> None:
    actor: Actor = actor_for(getattr(cast, who), "panel")
    with pytest.raises(NotAllowed):
        pauses.pause(actor, _target(cast, "site"), "mine")
    assert pauses.in_force().pauses == ()

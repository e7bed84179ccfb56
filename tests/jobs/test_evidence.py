"""Evidence: what a person sees before deciding, and what there is to decide."""

import uuid
from typing import Any

import pytest

from audit.clock import database_now
from jobs import agent_client, events, registry
from jobs.agent_client import AgentUnreachable
from jobs.events import Line
from jobs.evidence import MEANINGS, MOST_EVENTS, Decision, evidence, note, options
from jobs.models import EventType, Job
from jobs.states import Status
from tests.cast import Cast
from tests.jobs.samples import claimed, moved, submitted

pytestmark = pytest.mark.django_db


@pytest.fixture
def orphan(cast: Cast) -> Job:
    return moved(claimed(cast.site, "SAMPLE_CHANGE"), Status.ORPHANED)


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Give the entries that the agent, which is outside, will tell, newest first."""
    entries: list[dict[str, Any]] = []
    monkeypatch.setattr(agent_client, "ask", lambda server, asked: {"entries": entries})
    return entries


def _entry(step: str, state: str, ended_at: int | None) -> dict[str, Any]:
    identity = f"{uuid.uuid4()}:2:{step}"
    times = {"started_at": 1_786_000_000_000, "ended_at": ended_at}
    return {"id": identity, "action": f"backup.{step}", "state": state, "outcome": None, **times}


def test_events_and_worker_are_told(orphan: Job, journal: list[Any]) -> None:
    lines = [Line(EventType.PROGRESS, f"line {number}") for number in range(50)]
    events.append(orphan, lines, database_now())
    found = evidence(orphan)
    assert [line.message for line in found.events] == [f"line {number}" for number in range(30, 50)]
    assert len(found.events) == MOST_EVENTS
    assert (found.worker, found.last_beat) == ("w1", orphan.heartbeat_at)
    assert found.last_beat is not None
    assert found.worker_polled_at is not None


def test_the_journal_is_told_in_order_and_its_newest_state_explained(orphan: Job, journal: list[Any]) -> None:
    journal += [_entry("restore", "STARTED", None), _entry("safety", "SUCCEEDED", 1_786_000_005_500)]
    found = evidence(orphan)
    told = [(line.step, line.claim, line.action, line.state) for line in found.journal]
    assert told == [
        ("safety", 2, "backup.safety", "SUCCEEDED"),
        ("restore", 2, "backup.restore", "STARTED"),
    ]
    assert [f"{line.at:%H:%M:%S.%f}" for line in found.journal] == ["07:06:45.500000", "07:06:40.000000"]
    assert found.journal_says == MEANINGS["STARTED"]


def test_an_empty_journal_and_a_new_state_are_sentences(orphan: Job, journal: list[Any]) -> None:
    assert "no step of it was begun" in evidence(orphan).journal_says
    journal.append(_entry("restore", "SOMETHING", 1))
    assert "does not know" in evidence(orphan).journal_says


def test_an_agent_that_does_not_answer_is_a_sentence(orphan: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(server: object, asked: object) -> None:
        raise AgentUnreachable("no answer within 15 s")

    monkeypatch.setattr(agent_client, "ask", silent)
    found = evidence(orphan)
    assert found.journal == ()
    assert found.journal_says.startswith("The agent of web1 does not answer (no answer within 15 s)")


def test_without_a_server_nobody_is_asked(orphan: Job) -> None:
    orphan.server = None
    assert "no agent to ask" in evidence(orphan).journal_says


@pytest.mark.parametrize(
    ("status", "decisions"),
    [
        (Status.ORPHANED, ["RESOLVED", "FAILED", "RETRY"]),
        (Status.FAILED, ["RESOLVED", "RETRY"]),
        (Status.QUEUED, []),
        (Status.RUNNING, []),
        (Status.SUCCESS, []),
    ],
)
def test_what_can_be_decided_follows_from_the_state(cast: Cast, status: Status, decisions: list[str]) -> None:
    job = submitted(cast.site)
    job.status = status
    assert [option.decision for option in options(job)] == decisions
    assert bool(note(job)) is not bool(decisions)


def test_a_retry_is_not_offered_where_it_cannot_be(orphan: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = registry.operation("SAMPLE_CHANGE")
    monkeypatch.setattr(type(operation), "needs_plan", True)
    assert Decision.RETRY not in [option.decision for option in options(orphan)]
    assert "needs a new approval" in note(orphan)
    orphan.job_type = "FORMER"
    assert Decision.RETRY not in [option.decision for option in options(orphan)]
    assert "no longer installed" in note(orphan)


@pytest.mark.parametrize(
    ("status", "has_ended"),
    [(Status.QUEUED, False), (Status.FAILED, False), (Status.ORPHANED, False), (Status.SUCCESS, True)],
)
def test_only_of_a_job_that_ended_well_it_is_said_that_the_panel_knows(
    cast: Cast, journal: list[Any], status: Status, has_ended: bool
) -> None:
    """One that was queued again has a journal too, and has not ended."""
    job = moved(claimed(cast.site, "SAMPLE_CHANGE"), status)
    journal.append(_entry("restore", "SUCCEEDED", 1_786_000_001_000))
    assert (evidence(job).journal_says == "The job has ended; the panel knows how.") == has_ended

"""What a person should look at before deciding what becomes of a job, and what there is to decide.

All but the question to the agent is read from the database. An agent that does not answer is a sentence of
the evidence, never an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from agent.declarations.system import ReadJournal
from jobs import agent_client, events, registry
from jobs.agent_client import AgentUnreachable
from jobs.models import Job, JobEvent, Worker
from jobs.states import ENDED, SENTENCES, Status

MOST_EVENTS = 20


class Decision(StrEnum):
    """What a person can decide about a job that waits for one."""

    RESOLVED = "RESOLVED"
    FAILED = "FAILED"
    RETRY = "RETRY"


DECISIONS: dict[Decision, str] = {
    Decision.RESOLVED: "It is mended, or was done after all. The site is open; what waits for it goes on.",
    Decision.FAILED: "It is given up. The site is open; what waits for it is called off.",
    Decision.RETRY: "It is queued again with fresh attempts. The site is open.",
}
# What the newest line of the agent's journal means, by its state there.
MEANINGS: dict[str, str] = {
    "STARTED": "The step still runs at the server, under the site's lock. Wait for its end first.",
    "SUCCEEDED": "That step was done, and none behind it was begun. Work of several steps may be half done.",
    "FAILED": "The step ended without its result.",
    "CANCELLED": "The step was stopped before its end.",
    "INTERRUPTED": "The step's process died. How far it came must be looked for at the server.",
}


@dataclass(frozen=True)
class JournalLine:
    """One step as the agent knows it; `claim` says of which claim of the job it was."""

    step: str
    claim: int
    action: str
    state: str
    at: datetime


@dataclass(frozen=True)
class Option:
    """One thing that can be decided, and what follows from it."""

    decision: Decision
    sentence: str


@dataclass(frozen=True)
class Evidence:
    """What is known of a job. Journal and events are in the order in which they happened."""

    job: Job
    events: tuple[JobEvent, ...]
    worker: str
    last_beat: datetime | None
    worker_polled_at: datetime | None
    journal: tuple[JournalLine, ...]
    journal_says: str
    options: tuple[Option, ...]
    note: str


def evidence(job: Job) -> Evidence:
    """Gather what is known of a job; the agent of its server is asked, and may take seconds to answer."""
    lines, says = _journal(job)
    if lines and job.status in ENDED and job.status != Status.FAILED:
        says = "The job has ended; the panel knows how."
    worker = Worker.objects.filter(pk=job.worker_id).first() if job.worker_id else None
    return Evidence(
        job=job,
        events=tuple(reversed(events.history(job).reverse()[:MOST_EVENTS])),
        worker=job.worker_name,
        last_beat=job.heartbeat_at,
        worker_polled_at=worker.polled_at if worker else None,
        journal=lines,
        journal_says=says,
        options=options(job),
        note=note(job),
    )


def options(job: Job) -> tuple[Option, ...]:
    """Give what a person may decide about a job as it stands; nothing where it waits for nobody."""
    found = {
        Status.ORPHANED: [Decision.RESOLVED, Decision.FAILED],
        Status.FAILED: [Decision.RESOLVED],
    }.get(Status(job.status), [])
    if found and not _why_no_retry(job):
        found = [*found, Decision.RETRY]
    return tuple(Option(decision, DECISIONS[decision]) for decision in found)


def note(job: Job) -> str:
    """Give the sentence why not everything can be decided; empty where it can."""
    if job.status not in (Status.ORPHANED, Status.FAILED):
        meaning = SENTENCES[Status(job.status)]
        return f"There is nothing to decide: {job.code} is {job.get_status_display()}. {meaning}"
    return _why_no_retry(job)


def _why_no_retry(job: Job) -> str:
    operation = registry.operations().get(job.job_type)
    if operation is None:
        return f"RETRY is not possible: the type {job.job_type} is no longer installed."
    if job.site_id is None:
        return f"RETRY is not possible: {job.code} belongs to no site."
    if operation.needs_plan:
        return (
            f"RETRY is not possible: its approval served one run. Ask for the {operation.title} again; "
            "the new plan needs a new approval."
        )
    return ""


def _journal(job: Job) -> tuple[tuple[JournalLine, ...], str]:
    if job.server is None:
        return (), "The job has no server, so there is no agent to ask."
    try:
        answer = agent_client.ask(job.server, ReadJournal(job=str(job.uuid)))
    except AgentUnreachable as error:
        return (), f"The agent of {job.server} does not answer ({error}). Its journal is at the server."
    lines = tuple(_line(entry) for entry in reversed(answer["entries"]))
    if not lines:
        return (), f"The agent of {job.server} knows nothing of this job: no step of it was begun there."
    return lines, MEANINGS.get(
        lines[-1].state, "The newest step has a state that this version does not know."
    )


def _line(entry: Mapping[str, Any]) -> JournalLine:
    _, claim, step = str(entry["id"]).split(":", 2)
    moment = entry["ended_at"] or entry["started_at"]
    return JournalLine(
        step=step,
        claim=int(claim),
        action=str(entry["action"]),
        state=str(entry["state"]),
        at=datetime.fromtimestamp(moment / 1000, UTC),
    )

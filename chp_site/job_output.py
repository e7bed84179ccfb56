"""How commands show jobs, and how they wait for one."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accounts.actor import Actor
from chp_site.tables import WIDTH, facts, fitted, moment, table
from jobs import waiting
from jobs.models import Job, JobEvent
from jobs.relations import Related, related_to
from jobs.states import ENDED, SENTENCES, Status

POLL_SECONDS = 0.2
# Narrower than this a domain tells nothing.
NARROWEST = 12
MOMENTS = ("created_at", "scheduled_at", "started_at", "heartbeat_at", "deadline_at", "completed_at")


def data_of(job: Job, actor: Actor | None = None) -> dict[str, Any]:
    """Give the job as plain data for --json; what is related to it as far as the actor may see it."""
    return data_of_all([job], actor)[0]


def data_of_all(jobs: Sequence[Job], actor: Actor | None = None) -> list[dict[str, Any]]:
    """Give jobs as plain data. The number of queries does not depend on how many they are."""
    reasons, related = waiting.explain(jobs, actor), related_to(jobs, actor)
    return [_data(job, reasons.get(job.pk), related[job.pk]) for job in jobs]


def _data(job: Job, reason: str | None, related: Related) -> dict[str, Any]:
    return {
        "code": job.code,
        "uuid": str(job.uuid),
        "type": job.job_type,
        "site": job.site.domain if job.site else None,
        "customer": job.customer.code if job.customer else None,
        "server": job.server.name if job.server else None,
        "status": job.status,
        "priority": job.priority_name,
        "readiness": job.readiness or None,
        "waiting_reason": reason,
        "parents": [other.code for other in related.parents],
        "dependents": [other.code for other in related.dependents],
        "called_off_with": related.called_off_with.code if related.called_off_with else None,
        "plan": job.plan.code if job.plan else None,
        "payload": job.payload,
        "result": job.result,
        "progress": {"percent": job.progress_percent, "step": job.progress_step},
        "error": {"code": job.error_code, "message": job.error_message} if job.error_code else None,
        "requested_by": job.requested_by,
        "reason": job.reason,
        "worker": job.worker_name,
        "place": job.place,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        **{name: _iso(job, name) for name in MOMENTS},
    }


def event_data(line: JobEvent) -> dict[str, Any]:
    """Give one line of a job's history as plain data."""
    names = ("id", "at", "epoch", "event_type", "level", "message", "data")
    return {name: getattr(line, name) for name in names}


def text_of(job: Job, actor: Actor | None = None) -> str:
    """Give the job as lines for people."""
    related = related_to([job], actor)[job.pk]
    lines = facts(
        [
            ("Type", job.job_type),
            ("Site", job.site),
            ("Customer", job.customer.code if job.customer else ""),
            ("Server", job.server),
            ("Status", job.status),
            ("Means", SENTENCES[Status(job.status)]),
            ("Waiting", waiting.explain([job], actor).get(job.pk)),
            ("Waits for", named(related.parents)),
            ("Awaited by", named(related.dependents)),
            ("Called off", f"with {named([related.called_off_with])}" if related.called_off_with else ""),
            ("Priority", job.priority_name),
            ("Plan", job.plan),
            ("Asked by", job.requested_by),
            ("Reason", job.reason),
            ("Worker", _worker(job)),
            ("Attempt", f"{job.attempt} of {job.max_attempts}"),
            ("Progress", progress_of(job)),
            *((name.removesuffix("_at").capitalize(), moment(getattr(job, name))) for name in MOMENTS),
            ("Error", job.error_message),
        ]
    )
    parts = [f"{job.code}\n{'=' * len(job.code)}", lines, _block("Payload", job.payload)]
    return "\n".join([*filter(None, [*parts, _block("Result", job.result)]), "Times are UTC."])


def list_text(jobs: Sequence[Job]) -> str:
    """Give a table of jobs that fits a terminal; long domains are cut, in the table only."""
    rows = [[job.code, job.job_type, str(job.site or ""), job.status, job.priority_name] for job in jobs]
    return table(*_fitted(["JOB", "TYPE", "SITE", "STATUS", "PRIORITY"], rows))


def waiting_text(jobs: Sequence[Job], actor: Actor) -> str:
    """Give queued jobs with, below each, why it does not run."""
    reasons = waiting.explain(jobs, actor)
    rows = [[job.code, job.job_type, str(job.site or ""), job.priority_name] for job in jobs]
    lines = table(*_fitted(["JOB", "TYPE", "SITE", "PRIORITY"], rows)).splitlines()
    told = [fitted(f"  {reasons.get(job.pk) or 'next in turn'}", indent=2) for job in jobs]
    return "\n".join([lines[0], *(f"{line}\n{why}" for line, why in zip(lines[1:], told, strict=True))])


def named(jobs: Iterable[Job]) -> str:
    """Give jobs by code and state, in one line."""
    return ", ".join(f"{job.code} ({job.job_type}, {job.status})" for job in jobs)


def progress_of(job: Job) -> str:
    """Give how far the work is, empty where nothing was reported."""
    if not job.progress_percent and not job.progress_step:
        return ""
    return f"{job.progress_percent} % {job.progress_step}".rstrip()


def wait_for(job: Job, seconds: float) -> Job:
    """Give the job once it has ended or needs a person, or as it is when the time is over."""
    ends = time.monotonic() + seconds
    while not is_over(job) and time.monotonic() < ends:
        time.sleep(POLL_SECONDS)
        job = Job.objects.select_related("site", "customer", "server", "plan").get(pk=job.pk)
    return job


def is_over(job: Job) -> bool:
    """Whether nothing more happens to the job by itself."""
    return job.status in (*ENDED, Status.ORPHANED)


def _fitted(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Cut the column of domains so that the table is no wider than a terminal."""
    at = head.index("SITE")
    widths = [max(len(row[index]) for row in [head, *rows]) for index in range(len(head))]
    room = max(NARROWEST, WIDTH - sum(widths) + widths[at] - 2 * (len(head) - 1))
    return head, [[*row[:at], _cut(row[at], room), *row[at + 1 :]] for row in rows]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _worker(job: Job) -> str:
    return f"{job.worker_name}, place {job.place}" if job.place is not None else job.worker_name


def _block(name: str, values: object) -> str:
    if not isinstance(values, Mapping) or not values:
        return ""
    shown = (f"  {key}: {_plain(value)}" for key, value in values.items())
    return "\n".join([f"{name}:", *shown])


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _iso(job: Job, name: str) -> str | None:
    value = getattr(job, name)
    return value.isoformat() if value else None

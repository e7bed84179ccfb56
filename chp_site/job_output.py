"""How commands show a job, and how they wait for one."""

import time
from typing import Any, Protocol

from chp_site.tables import facts, moment
from jobs import waiting
from jobs.models import Job
from jobs.states import ENDED, Status

POLL_SECONDS = 0.2


class Writer(Protocol):
    def write(self, text: str) -> object: ...


def data_of(job: Job) -> dict[str, Any]:
    """Give the job as plain data for --json."""
    reason = waiting.explain([job]).get(job.pk)
    return {
        "code": job.code,
        "uuid": str(job.uuid),
        "type": job.job_type,
        "site": job.site.domain if job.site else None,
        "customer": job.customer.code if job.customer else None,
        "server": job.server.name if job.server else None,
        "status": job.status,
        "priority": job.priority_name,
        "waiting_reason": reason,
        "plan": job.plan.code if job.plan else None,
        "payload": job.payload,
        "result": job.result,
        "progress": {"percent": job.progress_percent, "step": job.progress_step},
        "error": {"code": job.error_code, "message": job.error_message} if job.error_code else None,
        "requested_by": job.requested_by,
        "reason": job.reason,
        "worker": job.worker_name,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        **{name: _iso(job, name) for name in ("created_at", "scheduled_at", "started_at", "heartbeat_at")},
        **{name: _iso(job, name) for name in ("deadline_at", "completed_at")},
    }


def text_of(job: Job) -> str:
    """Give the job as lines for people."""
    lines = facts(
        [
            ("Type", job.job_type),
            ("Site", job.site),
            ("Customer", job.customer.code if job.customer else ""),
            ("Server", job.server),
            ("Status", job.status),
            ("Waiting", waiting.explain([job]).get(job.pk)),
            ("Priority", job.priority_name),
            ("Plan", job.plan),
            ("Asked by", job.requested_by),
            ("Reason", job.reason),
            ("Worker", job.worker_name),
            ("Attempt", f"{job.attempt} of {job.max_attempts}"),
            ("Progress", f"{job.progress_percent} % {job.progress_step}" if job.started_at else ""),
            ("Created", moment(job.created_at)),
            ("Scheduled", moment(job.scheduled_at)),
            ("Started", moment(job.started_at)),
            ("Heartbeat", moment(job.heartbeat_at)),
            ("Deadline", moment(job.deadline_at)),
            ("Completed", moment(job.completed_at)),
            ("Error", job.error_message),
        ]
    )
    return f"{job.code}\n{'=' * len(job.code)}\n{lines}\nTimes are UTC."


def wait_for(job: Job, seconds: float) -> Job:
    """Give the job once it has ended or needs a person, or as it is when the time is over."""
    ends = time.monotonic() + seconds
    while job.status not in (*ENDED, Status.ORPHANED) and time.monotonic() < ends:
        time.sleep(POLL_SECONDS)
        job = Job.objects.select_related("site", "customer", "server", "plan").get(pk=job.pk)
    return job


def _iso(job: Job, name: str) -> str | None:
    value = getattr(job, name)
    return value.isoformat() if value else None

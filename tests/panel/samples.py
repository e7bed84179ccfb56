"""Rows and visitors of the panel's tests."""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.actor import operator
from accounts.models import User
from audit.clock import database_now
from backups.models import Backup, Integrity, ScheduleType
from jobs import pipeline
from jobs.models import Job
from jobs.request import JobRequest
from jobs.states import Status
from sites.models import Site
from tests.jobs.samples import moved

HOSTILE = "<img src=x onerror=alert(1)>\"'</script>\u202e"


def visitor(user: User | None, **more: Any) -> Client:
    """Give the browser of a person, or of nobody."""
    client = Client(**more)
    if user is not None:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def make_backup(site: Site, number: int = 1, integrity: str = Integrity.VERIFIED, **more: Any) -> Backup:
    """Make an artifact's row; a higher number is an older one."""
    at = database_now() - timedelta(hours=number)
    return Backup.objects.create(
        code=f"BK-20260813-{number:06d}",
        site=site,
        server=site.server,
        store="archive",
        schedule_type=ScheduleType.MANUAL,
        integrity=integrity,
        created_at=at,
        verified_at=at,
        size_bytes=1024 * 1024,
        **more,
    )


def make_job(site: Site, operation: str = "BACKUP", **changed: Any) -> Job:
    """Submit a job as the operator; `changed` columns are set behind the engine's back."""
    job = pipeline.submit(operator("root"), JobRequest(operation, site.pk)).job
    if changed:
        Job.objects.filter(pk=job.pk).update(**changed)
        job.refresh_from_db()
    return job


def queries_of(client: Client, path: str) -> int:
    """Count the queries of one page."""
    with CaptureQueriesContext(connection) as asked:
        assert client.get(path).status_code == 200
    return len(asked)


# The moves by which a job gets into each state.
WAYS: dict[Status, tuple[Status, ...]] = {
    Status.QUEUED: (),
    Status.RUNNING: (Status.RUNNING,),
    Status.CANCEL_REQUESTED: (Status.RUNNING, Status.CANCEL_REQUESTED),
    Status.SUCCESS: (Status.RUNNING, Status.SUCCESS),
    Status.FAILED: (Status.RUNNING, Status.FAILED),
    Status.CANCELLED: (Status.CANCELLED,),
    Status.ORPHANED: (Status.RUNNING, Status.ORPHANED),
    Status.RESOLVED: (Status.RUNNING, Status.FAILED, Status.RESOLVED),
}


def job_in(status: Status, site: Site, operation: str = "BACKUP", **more: Any) -> Job:
    """Give a job that the engine itself brought into this state."""
    job = pipeline.submit(operator("root"), JobRequest(operation, site.pk, **more)).job
    for to in WAYS[status]:
        job = moved(job, to)
    return Job.objects.select_related("site", "customer", "server").get(pk=job.pk)


def chain_of(*sites: Site) -> list[Job]:
    """Submit backups, each of which waits for the one before."""
    wishes = [
        JobRequest("BACKUP", site.pk, label=f"b{at}", after=(f"b{at - 1}",) if at else ())
        for at, site in enumerate(sites)
    ]
    return [one.job for one in pipeline.submit_chain(operator("root"), wishes)]

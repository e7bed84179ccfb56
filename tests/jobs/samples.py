"""Builders of the engine's tests: jobs, workers, and claims of them."""

import uuid
from typing import Any

from accounts.actor import operator
from audit.clock import database_now
from jobs import pipeline, registry
from jobs.models import Job, Worker
from jobs.queue import claim
from jobs.request import JobRequest
from sites.models import Site


def submitted(
    site: Site, operation: str = "SAMPLE", payload: dict[str, Any] | None = None, **more: Any
) -> Job:
    """Submit a job as the operator."""
    return pipeline.submit(operator("root"), JobRequest(operation, site.pk, payload or {}, **more)).job


def worker(name: str = "w1") -> Worker:
    """Register a worker, as a supervisor does."""
    now = database_now()
    return Worker.objects.create(
        id=uuid.uuid4(),
        name=name,
        host="here",
        pid=1,
        slots=4,
        job_types=registry.known_types(),
        started_at=now,
        polled_at=now,
    )


def claimed(site: Site, operation: str = "SAMPLE", payload: dict[str, Any] | None = None) -> Job:
    """Submit a job and claim it."""
    job = submitted(site, operation, payload)
    (taken,) = claim(worker(), 1, registry.known_types())
    assert taken.pk == job.pk
    return taken

"""Builders of the engine's tests: jobs, workers, and claims of them."""

import uuid
from typing import Any

from django.db import transaction

from accounts.actor import operator
from audit.clock import database_now
from jobs import pipeline, registry, transitions
from jobs.events import Line
from jobs.models import EventType, Job, Worker
from jobs.queue import claim
from jobs.request import JobRequest
from jobs.states import Status
from jobs.transitions import Move
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


def moved(job: Job, to: Status, **values: object) -> Job:
    """Move a job as the engine does, with all that follows from it."""
    with transaction.atomic():
        (found,) = transitions.hold([job.pk]).jobs
        transitions.apply([Move(found, to, Line(EventType.PROGRESS, "a test"), "test", "SYSTEM", values)])
    return found


def claimed(site: Site, operation: str = "SAMPLE", payload: dict[str, Any] | None = None) -> Job:
    """Submit a job and claim it."""
    job = submitted(site, operation, payload)
    (taken,) = claim(worker(), range(1), registry.known_types())
    assert taken.pk == job.pk
    return taken

"""Planting histories: rows, events and trail entries written directly, legal or not, as a test wants them."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from accounts.actor import operator
from audit import trail
from jobs import pipeline
from jobs.models import EventType, Job, JobEvent
from jobs.request import JobRequest
from jobs.states import Status
from jobs.transitions import AUDITED
from sites.models import Site
from tests.engine.marks import Phase

BEGIN = datetime(2026, 8, 13, 2, 0, tzinfo=UTC)
EVENTS: dict[Status, EventType] = {
    Status.QUEUED: EventType.RETRY,
    Status.RUNNING: EventType.CLAIMED,
    Status.CANCEL_REQUESTED: EventType.CANCEL_REQUESTED,
    Status.SUCCESS: EventType.SUCCESS,
    Status.FAILED: EventType.FAILED,
    Status.CANCELLED: EventType.CANCELLED,
    Status.ORPHANED: EventType.ORPHANED,
    Status.RESOLVED: EventType.RESOLVED,
}


@dataclass
class Planter:
    """Writes one move a second. `tells`: whether events say from where to where, and claims which place."""

    marks: Path
    tells: bool = True
    worker: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: datetime = BEGIN
    _places: int = 0

    def job(self, site: Site, kind: str = "COPY", **payload: Any) -> Job:
        """Submit a job as the product does; its type is ENGINE_ and the kind."""
        request = JobRequest(f"ENGINE_{kind}", site.pk, payload)
        return pipeline.submit(operator("root"), request).job

    def move(self, job: Job, to: Status, *, origin: str = "", audited: bool = True, **values: Any) -> None:
        """Write event, row and entry of one move, whatever the table of moves says to it."""
        self.clock += timedelta(seconds=1)
        self._event(job, to, {"from": origin or job.status, "to": to} if self.tells else {})
        self.row(job, status=to, **values)
        if audited:
            self.entry(job, to)

    def claim(self, job: Job, *, epoch: int | None = None, place: int | None = None) -> None:
        """Write a claim of the next epoch, by a place of its own, unless told."""
        job.epoch = job.epoch + 1 if epoch is None else epoch
        self._places += 1
        self.clock += timedelta(seconds=1)
        told = {"from": job.status, "to": Status.RUNNING}
        whose = {"worker": self.worker, "place": self._places if place is None else place}
        self._event(job, Status.RUNNING, told | whose if self.tells else {})
        self.row(job, status=Status.RUNNING, epoch=job.epoch)
        self.entry(job, Status.RUNNING)

    def succeed(self, *jobs: Job) -> None:
        """Let jobs end well, one after another."""
        for job in jobs:
            self.move(job, Status.SUCCESS, result={"epoch": job.epoch})

    def mark(
        self, job: Job, phase: Phase, when: float | None = None, *, epoch: int = 1, pid: int = 7
    ) -> None:
        """Write one mark of a run."""
        time = "" if when is None else f" {when:.2f}"
        with self.marks.open("a") as file:
            file.write(f"{job.code} {epoch} {pid} {phase}{time}\n")

    def row(self, job: Job, **values: Any) -> None:
        """Change the row. Two that exclude each other are kept apart by leaving one's state for later."""
        for name, value in values.items():
            setattr(job, name, value)
        self.write(job, {name: value for name, value in values.items() if name != "status"})
        if job.status not in (Status.RUNNING, Status.CANCEL_REQUESTED):
            self.write(job, {"status": job.status})

    def write(self, job: Job, values: Mapping[str, Any]) -> None:
        """Write columns of the row past every door."""
        if values:
            Job.objects.filter(pk=job.pk).update(**values)

    def entry(self, job: Job, to: Status) -> None:
        """Write the trail's entry of a move."""
        with transaction.atomic():
            trail.record(trail.Entry(AUDITED[to], "planter", "SYSTEM", target=job.code, result=to))

    def _event(self, job: Job, to: Status, data: dict[str, Any]) -> None:
        JobEvent.objects.create(
            job=job, at=self.clock, epoch=job.epoch, event_type=EVENTS[to], message="planted", data=data
        )

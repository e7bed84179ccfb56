"""A job's history: one line per event, cleaned before it is stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from audit.redaction import clean_data, clean_text
from jobs.models import EventType, Job, JobEvent, Level

MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Line:
    """One event before it has a job. `at` is its database time where that is not the time of writing."""

    event_type: EventType
    message: str = ""
    level: Level = Level.INFO
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None


def write(lines: Iterable[tuple[Job, Line]], at: datetime) -> None:
    """Save lines of any jobs, in order, in one statement. A line's own time comes before `at`."""
    JobEvent.objects.bulk_create([_written(job, line, at) for job, line in lines])


def append(job: Job, lines: Iterable[Line], at: datetime) -> None:
    """Save lines of one job in one statement."""
    write([(job, line) for line in lines], at)


def _written(job: Job, line: Line, at: datetime) -> JobEvent:
    return JobEvent(
        job_id=job.pk,
        at=line.at or at,
        epoch=job.epoch,
        event_type=line.event_type,
        level=line.level,
        message=clean_text(line.message, MESSAGE_LIMIT),
        data=clean_data(dict(line.data)),
    )


def history(job: Job, after: int = 0) -> QuerySet[JobEvent]:
    """Give the events of a job in order, from behind the event with key `after`."""
    return JobEvent.objects.filter(job=job, pk__gt=after).order_by("pk")

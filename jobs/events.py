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
    """One event before it has a job and a time."""

    event_type: EventType
    message: str = ""
    level: Level = Level.INFO
    data: Mapping[str, Any] = field(default_factory=dict)


def written(job: Job, line: Line, at: datetime) -> JobEvent:
    """Give the row for a line, not yet saved."""
    return JobEvent(
        job_id=job.pk,
        at=at,
        epoch=job.epoch,
        event_type=line.event_type,
        level=line.level,
        message=clean_text(line.message, MESSAGE_LIMIT),
        data=clean_data(dict(line.data)),
    )


def append(job: Job, lines: Iterable[Line], at: datetime) -> None:
    """Save lines of one job in one statement."""
    JobEvent.objects.bulk_create([written(job, line, at) for line in lines])


def history(job: Job, after: int = 0) -> QuerySet[JobEvent]:
    """Give the events of a job in order, from behind the event with key `after`."""
    return JobEvent.objects.filter(job=job, pk__gt=after).order_by("pk")

"""A job's history: one line per event, cleaned before it is stored."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from audit.redaction import clean_data, clean_text
from jobs.models import EventType, Job, JobEvent, Level
from jobs.states import HELD

MESSAGE_LIMIT = 2000
_COLUMNS = "job_id, at, epoch, event_type, level, message, data"
_ROW = "(%s, %s, %s, %s, %s, %s, %s)"
_INSERT = f"INSERT INTO jobs_jobevent ({_COLUMNS}) VALUES "  # noqa: S608 - of constants
_HELD = ", ".join(f"'{status.value}'" for status in HELD)
_INSERT_IF_OWNED = f"""
    INSERT INTO jobs_jobevent ({_COLUMNS}) SELECT %s, %s, %s, %s, %s, %s, %s
    WHERE EXISTS (SELECT 1 FROM jobs_job WHERE id = %s AND claim_token = %s AND status IN ({_HELD}))
"""  # noqa: S608 - of constants


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
    rows = [_columns(job, line, at) for job, line in lines]
    if rows:
        # Not bulk_create: on the way of every job, and several times faster so.
        with connection.cursor() as cursor:
            cursor.execute(_INSERT + ", ".join([_ROW] * len(rows)), [value for row in rows for value in row])


def append(job: Job, lines: Iterable[Line], at: datetime) -> None:
    """Save lines of one job in one statement."""
    write([(job, line) for line in lines], at)


def append_if_owned(job: Job, line: Line, at: datetime) -> None:
    """Save a line of a job, in one statement, if the claim of this attempt still is in force."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_IF_OWNED, [*_columns(job, line, at), job.pk, job.claim_token])


def _columns(job: Job, line: Line, at: datetime) -> tuple[Any, ...]:
    return (
        job.pk,
        connection.ops.adapt_datetimefield_value(line.at or at),
        job.epoch,
        line.event_type.value,
        line.level.value,
        clean_text(line.message, MESSAGE_LIMIT),
        json.dumps(clean_data(dict(line.data))) if line.data else "{}",
    )


def history(job: Job, after: int = 0) -> QuerySet[JobEvent]:
    """Give the events of a job in order, from behind the event with key `after`."""
    return JobEvent.objects.filter(job=job, pk__gt=after).order_by("pk")

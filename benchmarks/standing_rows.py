"""Rows that stand in the queue beside the measured jobs, made by SQL from one job that was submitted.

Every column of that job is copied, whatever columns there are; a kind says what is different. Columns that
the engine does not have are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from benchmarks import queued_jobs
from benchmarks.queued_jobs import ACTOR, Tenancy
from benchmarks.records import STANDING
from jobs import pipeline
from jobs.models import Job, JobEvent
from jobs.profile import Priority, SiteLock

KINDS = ("finished", "lowprio", "scheduled", "blocked")
CLOSED_SITES = 100
_HOLDER = (
    "(SELECT holder.id FROM jobs_job holder "
    "WHERE holder.status = 'ORPHANED' AND holder.site_id = %s + (series.n %% %s))"
)
_NOT_QUEUED = {"readiness": "", "waiting_since": None}
_FRESH_UUID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}


@dataclass(frozen=True)
class Expression:
    """SQL in a value's place. `series.n` counts the new rows from 1, `template` is the copied one."""

    text: str
    values: tuple[Any, ...] = ()


def insert(tenancy: Tenancy, kind: str, rows: int) -> None:
    """Put so many rows of one of KINDS into the job table, each with the events of a new job."""
    template = queued_jobs.submit(tenancy, STANDING)
    with transaction.atomic():
        _pause_triggers()
        different = _close_sites(tenancy, template) if kind == "blocked" else _different(kind)
        _copy_job(template, rows, different)
        _copy_events(template)
    pipeline.cancel(ACTOR, template.pk, "the template of a benchmark's rows")


def refresh_statistics() -> None:
    """Let the planner see the new rows."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _different(kind: str) -> dict[str, object]:
    """Give the columns in which rows of a kind differ from a job that is ready."""
    now = timezone.now()
    if kind == "finished":
        ended = {"status": "SUCCESS", "started_at": now, "completed_at": now, "progress_percent": 100}
        return {**ended, **_NOT_QUEUED}
    if kind == "lowprio":
        return {"priority": Priority.LOW}
    if kind == "scheduled":
        return {"scheduled_at": now + timedelta(days=1), "readiness": "LATER", "waiting_since": None}
    raise ValueError(f"There is no kind {kind}; there are {', '.join(KINDS)}.")


def _close_sites(tenancy: Tenancy, template: Job) -> dict[str, object]:
    """Close sites by an orphaned job each; give what makes a job wait there, at the head of the order."""
    sites = queued_jobs.make_sites(tenancy.server, tenancy.sites[0].customer, "closed", CLOSED_SITES)
    first = min(site.pk for site in sites)
    site = Expression("%s + (series.n %% %s)", (first, CLOSED_SITES))
    alone = {"site": site, "lock": SiteLock.EXCLUSIVE, "mutating": True}
    lost = {"status": "ORPHANED", "epoch": 1, "attempt": 1, "brief": False}
    _copy_job(template, CLOSED_SITES, {**alone, **lost, **_NOT_QUEUED})
    holder = Expression(_HOLDER, site.values)
    # Shared, so that each waits for the holder itself and not behind another of its kind.
    waits = {"lock": SiteLock.SHARED, "readiness": "SITE", "blocked_by": holder}
    return {"site": site, "priority": Priority.CRITICAL, **waits}


def _copy_job(template: Job, rows: int, different: Mapping[str, object]) -> None:
    """Copy a job so many times, all of its columns but those that are different."""
    columns, expressions, values = _columns(Job, different)
    # One statement for both databases: each knows a recursive table.
    statement = (
        f"INSERT INTO {Job._meta.db_table} ({columns}) "  # noqa: S608 - names of columns alone
        "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %s) "
        f"SELECT {expressions} FROM {Job._meta.db_table} template, series WHERE template.id = %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [rows, *values, template.pk])


def _copy_events(template: Job) -> None:
    """Give every copy the events that its template has."""
    columns, expressions, values = _columns(JobEvent, {"job": Expression("copy.id")})
    statement = (
        f"INSERT INTO {JobEvent._meta.db_table} ({columns}) "  # noqa: S608 - names of columns alone
        f"SELECT {expressions} FROM {JobEvent._meta.db_table} template, {Job._meta.db_table} copy "
        "WHERE template.job_id = %s AND copy.id > %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, template.pk, template.pk])


def _columns(model: type[models.Model], different: Mapping[str, object]) -> tuple[str, str, list[Any]]:
    """Give the table's columns, an expression for each, and the values of those expressions."""
    columns: list[str] = []
    expressions: list[str] = []
    values: list[Any] = []
    for field in model._meta.concrete_fields:
        if field.primary_key or getattr(field, "generated", False):
            continue
        expression = _expression(field, different)
        columns.append(connection.ops.quote_name(str(field.column)))
        expressions.append(expression.text)
        values += expression.values
    return ", ".join(columns), ", ".join(expressions), values


def _expression(field: "models.Field[Any, Any]", different: Mapping[str, object]) -> Expression:
    if field.name in different:
        value = different[field.name]
        if isinstance(value, Expression):
            return value
        return Expression("%s", (field.get_db_prep_save(value, connection),))
    if field.unique and isinstance(field, models.UUIDField):
        return Expression(_FRESH_UUID[connection.vendor])
    return Expression(f"template.{connection.ops.quote_name(str(field.column))}")


def _pause_triggers() -> None:
    """Spare PostgreSQL a look-up per reference and row, where its user may; in this transaction only."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        if cursor.fetchone() == (True,):
            cursor.execute("SET LOCAL session_replication_role = replica")

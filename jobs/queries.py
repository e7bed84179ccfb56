"""Scoped look-ups of jobs, and the querysets that faces list."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet

from accounts.actor import Actor, ActorKind
from accounts.models import Customer
from jobs import statements
from jobs.exceptions import NotVisible
from jobs.models import Job, Plan
from jobs.statements import Columns, among
from jobs.states import CLOSING, HELD, Readiness
from sites.models import Server, Site
from sites.queries import SEES_ALL, visible_customers

# Spelled out: with placeholders SQLite does not find that a partial index covers them.
HELD_SQL = f"jobs_job.status IN ({', '.join(repr(status.value) for status in HELD)})"
_JOBS = Columns(Job)
_RELATED: dict[str, Columns[Any]] = {
    name: Columns(model, f"the_{name}")
    for name, model in (("site", Site), ("customer", Customer), ("server", Server), ("plan", Plan))
}

_FOREIGN: dict[str, Any] = {name: Job._meta.get_field(name) for name in _RELATED}


def standing(*states: Readiness) -> QuerySet[Job]:
    """Give the queued jobs that stand in line so.

    The states are spelled out: with placeholders SQLite does not find that a partial index covers them.
    """
    spelled = ", ".join(f"'{state.value}'" for state in states)
    condition = f"= {spelled}" if len(states) == 1 else f"IN ({spelled})"
    return Job.objects.extra(where=[f"jobs_job.readiness {condition}"]).order_by()  # noqa: S610 - of constants


def held_jobs() -> QuerySet[Job]:
    """Give the jobs that a worker owns."""
    return Job.objects.extra(where=[HELD_SQL])  # noqa: S610 - of constants


def closing_jobs() -> QuerySet[Job]:
    """Give the jobs that keep their sites closed: the held ones and the orphans."""
    return Job.objects.filter(status__in=CLOSING)


def fetch(
    keys: Collection[int], condition: str, related: tuple[str, ...], *, lock: bool = False
) -> list[Job]:
    """Give rows of jobs by their keys, where a condition (constant SQL) holds, with what they refer to.

    With `lock` they are locked until the transaction ends; those that somebody else holds are passed over.
    """
    if not keys:
        return []
    which, values = among(keys)
    parts: list[Columns[Any]] = [_JOBS, *(_RELATED[name] for name in related)]
    joins = " ".join(
        f"LEFT JOIN {_RELATED[name].table} AS the_{name} ON the_{name}.id = jobs_job.{name}_id"
        for name in related
    )
    locking = "FOR UPDATE OF jobs_job SKIP LOCKED" if lock and connection.vendor == "postgresql" else ""
    columns = ", ".join(part.sql for part in parts)
    sql = f"SELECT {columns} FROM jobs_job {joins} WHERE jobs_job.id {which} AND {condition} {locking}"  # noqa: S608
    with connection.cursor() as cursor:
        statements.run(cursor, sql, values)
        rows = cursor.fetchall()
    known: dict[tuple[str, Any], Model] = {}
    return [_job(row, related, known) for row in rows]


def _job(row: Sequence[Any], related: tuple[str, ...], known: dict[tuple[str, Any], Model]) -> Job:
    """Give the job of a row. `known` is what earlier rows referred to: each is made once."""
    job = _JOBS.instance(row[: _JOBS.width])
    at = _JOBS.width
    for name in related:
        part = _RELATED[name]
        field = _FOREIGN[name]
        key = getattr(job, field.attname)
        if key is not None and (name, key) not in known:
            known[name, key] = part.instance(row[at : at + part.width])
        field.set_cached_value(job, None if key is None else known[name, key])
        at += part.width
    return job


def jobs_visible_to(actor: Actor) -> QuerySet[Job]:
    """Give the jobs this actor may see, newest first."""
    jobs = Job.objects.select_related("site", "customer", "server", "plan")
    if actor.kind in SEES_ALL:
        return jobs
    if actor.kind is not ActorKind.CUSTOMER:
        return jobs.none()
    # Looked up first: for a handful of keys the list is read along the customer's own index.
    mine = list(visible_customers(actor).values_list("customer_id", flat=True))
    return jobs.filter(customer_id__in=mine)


def job_visible_to(actor: Actor, job_id: int | None) -> Job:
    """Give one job. Raises NotVisible for a foreign one as for a missing one."""
    if job_id is not None and 0 < job_id < 2**63:
        job = jobs_visible_to(actor).filter(pk=job_id).first()
        if job is not None:
            return job
    raise NotVisible(f"There is no job {job_id}." if job_id else "There is no such job.")

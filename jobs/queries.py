"""Scoped look-ups of jobs, and the querysets that faces list."""

from collections.abc import Collection

from django.db import connection
from django.db.models import QuerySet, prefetch_related_objects

from accounts.actor import Actor, ActorKind
from jobs.exceptions import NotVisible
from jobs.models import Job
from jobs.states import CLOSING, HELD, Readiness
from sites.queries import SEES_ALL, visible_customers

FEW = 4
# SQLite finds the index only by its own condition, the first one.
HELD_SQL = " AND ".join(
    f"status IN ({', '.join(repr(status.value) for status in states)})" for states in (CLOSING, HELD)
)
_COLUMNS = ", ".join(str(field.column) for field in Job._meta.concrete_fields)


def standing(*states: Readiness) -> QuerySet[Job]:
    """Give the queued jobs that stand in line so.

    The states are spelled out: with placeholders SQLite does not find that a partial index covers them.
    """
    spelled = ", ".join(f"'{state.value}'" for state in states)
    condition = f"= {spelled}" if len(states) == 1 else f"IN ({spelled})"
    return Job.objects.extra(where=[f"jobs_job.readiness {condition}"]).order_by()  # noqa: S610 - of constants


def held_jobs() -> QuerySet[Job]:
    """Give the jobs that a worker owns. SQLite finds the index only by its own condition, the first one."""
    return Job.objects.filter(status__in=CLOSING).filter(status__in=HELD)


def closing_jobs() -> QuerySet[Job]:
    """Give the jobs that keep their sites closed: the held ones and the orphans."""
    return Job.objects.filter(status__in=CLOSING)


def fetch(
    keys: Collection[int], condition: str, related: tuple[str, ...], *, lock: bool = False
) -> list[Job]:
    """Give rows of jobs by their keys, where a condition (constant SQL) holds.

    On the way of every job: composing the statement anew for its many columns costs more than the rest. What
    the rows refer to is looked up once for all where they are many, else when it is asked for. With `lock`
    they are locked until the transaction ends; those that somebody else holds are passed over.
    """
    if not keys:
        return []
    marks = ", ".join(["%s"] * len(keys))
    locking = "FOR UPDATE SKIP LOCKED" if lock and connection.vendor == "postgresql" else ""
    sql = f"SELECT {_COLUMNS} FROM jobs_job WHERE id IN ({marks}) AND {condition} {locking}"  # noqa: S608
    found = list(Job.objects.raw(sql, list(keys)))
    if len(found) > FEW:
        prefetch_related_objects(found, *related)
    return found


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

"""Jobs that wait for others: who they are, and what becomes of them when those others end or come back.

Failure or cancellation of a parent calls its queued descendants off; a parent that is retried or resolved
revives what was called off with it. A dependency is made together with its job, which therefore cannot be
an ancestor of a job that is there already: rows alone can form no circle.
"""

from collections.abc import Collection, Iterable

from django.db import connection

from jobs import statements
from jobs.models import Job, JobDependency
from jobs.statements import among
from jobs.states import SATISFIED, Readiness, Status

# Which job each one was called off with.
Causes = dict[int, int]


_CHILDREN = "SELECT job_id FROM jobs_jobdependency WHERE parent_id {which}"
OF_ANOTHER = "a job of another customer"


def named_for(job: Job, other: Job) -> str:
    """Give how another job is called in what the customer of this one reads: never another tenant's code."""
    return other.code if other.customer_id == job.customer_id else OF_ANOTHER


def descendants(parents: Collection[int]) -> list[Job]:
    """Give all jobs that wait, directly or not, for these; one query where there are none."""
    found: set[int] = set()
    level = set(parents)
    while level:
        level = _children(level) - found
        found |= level
    return list(Job.objects.filter(pk__in=found).select_related("customer")) if found else []


def _children(parents: Collection[int]) -> set[int]:
    """Give the jobs that wait for one of these. On the way of every job, which mostly has none."""
    which, values = among(parents)
    with connection.cursor() as cursor:
        statements.run(cursor, _CHILDREN.format(which=which), values)
        return {key for (key,) in cursor.fetchall()}


def ancestry(family: Iterable[Job]) -> dict[int, set[int]]:
    """Give the parents of each of these jobs."""
    parents: dict[int, set[int]] = {job.pk: set() for job in family}
    pairs = JobDependency.objects.filter(job_id__in=parents).values_list("job_id", "parent_id")
    for job_id, parent_id in pairs:
        parents[job_id].add(parent_id)
    return parents


def below(root: int, family: Iterable[Job], parents: dict[int, set[int]]) -> list[Job]:
    """Give those of the family that descend from one job."""
    reached, grew = {root}, True
    while grew:
        more = {pk for pk, above in parents.items() if pk not in reached and above & reached}
        reached, grew = reached | more, bool(more)
    return [job for job in family if job.pk in reached]


def to_call_off(root: Job, family: Iterable[Job], parents: dict[int, set[int]]) -> list[Job]:
    """Give the queued descendants of a job that has failed or was called off."""
    return [job for job in below(root.pk, family, parents) if job.status == Status.QUEUED]


def to_revive(root: Job, family: Iterable[Job], parents: dict[int, set[int]]) -> tuple[list[Job], Causes]:
    """Give the descendants that come back with a job which now is queued again or resolved.

    One that waits for another failed or cancelled job too does not come back yet: it comes back with that
    one, which is given as its cause from now on.
    """
    called_off = [job for job in below(root.pk, family, parents) if job.status == Status.CANCELLED]
    mine = {job.pk: job for job in called_off if job.cancelled_with_id == root.pk}
    dead = _dead(mine, parents) - {root.pk, *mine}
    causes: Causes = {}
    while True:
        stays = {
            pk: min(parents[pk] & (dead | causes.keys()), default=None) for pk in mine.keys() - causes.keys()
        }
        more = {pk: causes.get(at, at) for pk, at in stays.items() if at is not None}
        if not more:
            return [job for pk, job in mine.items() if pk not in causes], causes
        causes |= more


def _dead(jobs: Iterable[int], parents: dict[int, set[int]]) -> set[int]:
    asked = {parent for pk in jobs for parent in parents[pk]}
    ended = Job.objects.filter(pk__in=asked, status__in=(Status.FAILED, Status.CANCELLED))
    return set(ended.values_list("pk", flat=True))


def released(family: Iterable[Job], parents: dict[int, set[int]]) -> list[Job]:
    """Give those that wait for nothing any more, of a family whose rows are locked."""
    waiting = [job for job in family if job.status == Status.QUEUED and job.readiness == Readiness.PARENT]
    asked = {pk for job in waiting for pk in parents[job.pk]}
    open_still = set(
        Job.objects.filter(pk__in=asked).exclude(status__in=SATISFIED).values_list("pk", flat=True)
    )
    return [job for job in waiting if not parents[job.pk] & open_still]

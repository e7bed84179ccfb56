"""Scoped look-ups of jobs, and the querysets that faces list."""

from django.db.models import QuerySet

from accounts.actor import Actor, ActorKind
from jobs.exceptions import NotVisible
from jobs.models import Job
from jobs.states import CLOSING, HELD
from sites.queries import SEES_ALL, visible_customers

MOST_JOINED = 4


def held_jobs() -> QuerySet[Job]:
    """Give the jobs that a worker owns. SQLite finds the index only by its own condition, the first one."""
    return Job.objects.filter(status__in=CLOSING).filter(status__in=HELD)


def closing_jobs() -> QuerySet[Job]:
    """Give the jobs that keep their sites closed: the held ones and the orphans."""
    return Job.objects.filter(status__in=CLOSING)


def with_related(jobs: QuerySet[Job], names: tuple[str, ...], many: int) -> QuerySet[Job]:
    """Have rows come with what they refer to: joined where they are few, else looked up once for all.

    Many jobs of one hand share their site, customer and server, which are made only once so.
    """
    return jobs.select_related(*names) if many <= MOST_JOINED else jobs.prefetch_related(*names)


def jobs_visible_to(actor: Actor) -> QuerySet[Job]:
    """Give the jobs this actor may see, newest first."""
    jobs = Job.objects.select_related("site", "customer", "server", "plan")
    if actor.kind in SEES_ALL:
        return jobs
    if actor.kind is not ActorKind.CUSTOMER:
        return jobs.none()
    return jobs.filter(customer__in=visible_customers(actor).values("customer_id"))


def job_visible_to(actor: Actor, job_id: int | None) -> Job:
    """Give one job. Raises NotVisible for a foreign one as for a missing one."""
    if job_id is not None and 0 < job_id < 2**63:
        job = jobs_visible_to(actor).filter(pk=job_id).first()
        if job is not None:
            return job
    raise NotVisible(f"There is no job {job_id}." if job_id else "There is no such job.")

"""Who waits for whom, for every place that shows jobs: a whole page of them at once."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from accounts.actor import Actor
from jobs.models import Job, JobDependency
from jobs.queries import jobs_visible_to

# Of one page. More dependents than this are not told.
MOST_PAIRS = 1000


@dataclass(frozen=True)
class Related:
    """The jobs that one job waits for, those that wait for it, and the one with which it was called off."""

    parents: tuple[Job, ...] = ()
    dependents: tuple[Job, ...] = ()
    called_off_with: Job | None = None


def related_to(jobs: Iterable[Job], actor: Actor | None = None) -> dict[int, Related]:
    """Give what is related to each of these jobs, by its key. Three queries at most.

    What the actor may not see is left out; without an actor, what belongs to another customer.
    """
    shown = {job.pk: job for job in jobs}
    if not shown:
        return {}
    parents = _pairs(shown, "job_id", "parent_id")
    dependents = _pairs(shown, "parent_id", "job_id")
    off_with = {job.pk: [job.cancelled_with_id] for job in shown.values() if job.cancelled_with_id}
    wanted = {pk for pairs in (parents, dependents, off_with) for keys in pairs.values() for pk in keys}
    known = _visible(wanted, actor) if wanted else {}
    return {
        pk: Related(
            parents=_of(job, parents[pk], known, actor),
            dependents=_of(job, dependents[pk], known, actor),
            called_off_with=next(iter(_of(job, off_with.get(pk, []), known, actor)), None),
        )
        for pk, job in shown.items()
    }


def _pairs(shown: Collection[int], mine: str, other: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    rows = JobDependency.objects.filter(**{f"{mine}__in": list(shown)}).order_by(mine, other)
    for pk, related in rows.values_list(mine, other)[:MOST_PAIRS]:
        found[pk].append(related)
    return found


def _visible(wanted: Collection[int], actor: Actor | None) -> dict[int, Job]:
    jobs = Job.objects.all() if actor is None else jobs_visible_to(actor).select_related(None)
    columns = ("pk", "job_type", "status", "customer_id")
    return {job.pk: job for job in jobs.filter(pk__in=wanted).only(*columns)}


def _of(job: Job, keys: Iterable[int], known: dict[int, Job], actor: Actor | None) -> tuple[Job, ...]:
    found = (known[pk] for pk in keys if pk in known)
    return tuple(other for other in found if actor is not None or other.customer_id == job.customer_id)

"""Whether the states of jobs are those that the audit trail tells of: a change made behind its back is found.

The trail's own chain cannot show an entry that was never written (queue J5).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.actions import Action
from audit.models import AuditEntry
from jobs.models import Job
from jobs.transitions import AUDITED

PAGE = 500
# A job may move between the reading of its row and of its entries: then it is looked at again.
MOST_LOOKS = 5
_ACTIONS = (Action.JOB_ENQUEUED, *AUDITED.values())


@dataclass(frozen=True)
class Discrepancy:
    """A job in another state than the trail's last entry of it says; `told` is "" where it has none."""

    job: Job
    told: str


def discrepancies() -> Iterator[Discrepancy]:
    """Compare all jobs with the trail, oldest first, a page at a time. Reads only and takes no lock."""
    last = 0
    while page := list(Job.objects.filter(pk__gt=last).select_related("site").order_by("pk")[:PAGE]):
        last = page[-1].pk
        told = _told(page)
        for job in page:
            if told.get(job.code, "") != job.status and (found := _looked_at_again(job)) is not None:
                yield found


def _looked_at_again(job: Job) -> Discrepancy | None:
    for _ in range(MOST_LOOKS):
        seen = Job.objects.select_related("site").filter(pk=job.pk).first()
        if seen is None:
            return None
        told = _told([seen]).get(seen.code, "")
        if told == seen.status:
            return None
        if Job.objects.filter(pk=seen.pk, status=seen.status, epoch=seen.epoch).exists():
            return Discrepancy(seen, told)
    return None


def _told(jobs: Sequence[Job]) -> dict[str, str]:
    """Give the last state that the trail tells of each of these jobs, by its code."""
    entries = AuditEntry.objects.filter(target__in=[job.code for job in jobs], action__in=_ACTIONS)
    return dict(entries.order_by("sequence").values_list("target", "result"))

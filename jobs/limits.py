"""How many jobs may run at once. Counted from running rows: there is no counter to leak."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from jobs.models import Job
from jobs.policies import type_limits


@dataclass(frozen=True)
class Room:
    """What the limits leave, as of one moment inside the claim's lock."""

    overall: int
    by_type: dict[str, int]

    def reason_against(self, job_type: str) -> str:
        """Give the sentence why no job of this type may start, or an empty one."""
        if self.overall <= 0:
            return f"all {settings.MAX_WORKERS} places of MAX_WORKERS are taken"
        if self.by_type.get(job_type, 1) <= 0:
            return f"{job_type} limit is reached"
        return ""

    def less(self, job_type: str) -> "Room":
        """Give the room after one more job of this type."""
        by_type = dict(self.by_type)
        if job_type in by_type:
            by_type[job_type] -= 1
        return Room(self.overall - 1, by_type)


def room(running: Iterable[Job]) -> Room:
    """Give the room beside these running jobs."""
    counts = Counter(job.job_type for job in running)
    by_type = {job_type: limit - counts[job_type] for job_type, limit in type_limits().items()}
    return Room(settings.MAX_WORKERS - sum(counts.values()), by_type)

"""How many jobs a second the pipeline takes, with no worker running."""

import time
from collections.abc import Callable, Iterator

from benchmarks import queued_jobs
from benchmarks.figures import Figure, rate
from benchmarks.queued_jobs import Tenancy
from benchmarks.records import WARMING
from benchmarks.stand import Stand

USUAL_JOBS = 2000
WARM_UP = 20


def measure(stand: Stand) -> Iterator[Figure]:
    """Give jobs per second, each in its own transaction, and all in one."""
    jobs = stand.options.jobs_or(USUAL_JOBS)
    for metric, way in (
        ("one_by_one", queued_jobs.submit_one_by_one),
        ("one_transaction", queued_jobs.submit_together),
    ):
        yield Figure(metric, rate(jobs, _seconds(stand, way, jobs)), "jobs/s", {"jobs": jobs})


def _seconds(stand: Stand, way: Callable[[Tenancy, int], None], jobs: int) -> float:
    stand.fresh()
    tenancy = queued_jobs.make_tenancy()
    queued_jobs.submit_one_by_one(tenancy, WARM_UP, first=WARMING)
    began = time.monotonic()
    way(tenancy, jobs)
    return time.monotonic() - began

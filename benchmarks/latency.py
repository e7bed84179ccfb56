"""How soon an idle worker begins a job: from the return of the commit to the start of the work."""

import random
import time
from collections.abc import Iterator

from benchmarks import queued_jobs
from benchmarks.figures import Figure, percentile
from benchmarks.queued_jobs import Tenancy
from benchmarks.records import START, WARMING
from benchmarks.stand import Stand

USUAL_JOBS = 200
GAP = 0.050
# A fixed gap would stay in step with a worker that polls.
JITTER = 0.2
WARM_UP = 4


def measure(stand: Stand) -> Iterator[Figure]:
    """Give percentiles of the time to the start, in milliseconds."""
    jobs, slots = stand.options.jobs_or(USUAL_JOBS), stand.options.slots
    stand.fresh()
    tenancy = queued_jobs.make_tenancy()
    with stand.workers(1, slots) as running:
        queued_jobs.submit_one_by_one(tenancy, WARM_UP, first=WARMING)
        stand.log.wait(START, WARM_UP, stand.options.cap, running.are_alive)
        time.sleep(1.0)
        committed = _submit_spread(tenancy, jobs)
        stand.log.wait(START, WARM_UP + jobs, stand.options.cap, running.are_alive)
    waits = [1000 * (record.moment - committed[record.number]) for record in stand.log.starts()]
    params = {"jobs": jobs, "seen": len(waits), "slots": slots, "gap_ms": 1000 * GAP}
    for share in (50, 95, 99):
        yield Figure(f"p{share}", percentile(waits, share), "ms", params)
    yield Figure("most", max(waits, default=None), "ms", params)


def _submit_spread(tenancy: Tenancy, jobs: int) -> list[float]:
    """Submit jobs one gap apart, spread by the jitter; give the moment at which each was committed."""
    spread = random.Random(1)  # noqa: S311 - the same gaps in every run
    committed: list[float] = []
    due = time.monotonic()
    for number in range(jobs):
        time.sleep(max(0.0, due - time.monotonic()))
        queued_jobs.submit(tenancy, number)
        committed.append(time.monotonic())
        due += GAP * spread.uniform(1 - JITTER, 1 + JITTER)
    return committed

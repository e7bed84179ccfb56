"""How many jobs a second workers run, of jobs that were queued before they started."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import queued_jobs
from benchmarks.figures import Figure, rate
from benchmarks.records import START, Record
from benchmarks.stand import Stand
from benchmarks.worker_processes import Workers

USUAL_JOBS = 2000
# Worker commands, and slots of each.
CONFIGURATIONS = ((1, 1), (1, 2), (2, 1))


@dataclass(frozen=True)
class Drained:
    """One drain: the starts, when the store said that all have ended, and processor time per job in ms."""

    starts: list[Record]
    settled: float | None
    worker_ms: float
    server_ms: float | None
    complete: bool

    def figures(self, params: dict[str, object]) -> Iterator[Figure]:
        """Give the figures of the drain."""
        params = {**params, "done": len(self.starts), "complete": self.complete}
        moments = [record.moment for record in self.starts]
        began, intervals = min(moments, default=0.0), len(moments) - 1
        yield Figure("started", rate(intervals, max(moments, default=0.0) - began), "jobs/s", params)
        settled = None if self.settled is None else rate(intervals, self.settled - began)
        yield Figure("settled", settled, "jobs/s", params)
        yield Figure("worker_cpu", self.worker_ms, "ms/job", params)
        if self.server_ms is not None:
            yield Figure("server_cpu", self.server_ms, "ms/job", params)
        twice = len(moments) - len({record.number for record in self.starts})
        yield Figure("started_twice", twice, "jobs", params)


def measure(stand: Stand) -> Iterator[Figure]:
    """Give the figures of a drain for each configuration of workers."""
    jobs = stand.options.jobs_or(USUAL_JOBS)
    for workers, slots in CONFIGURATIONS:
        stand.fresh()
        queued_jobs.submit_together(queued_jobs.make_tenancy(), jobs)
        drained = drain_queued(stand, jobs, workers, slots)
        yield from drained.figures({"jobs": jobs, "workers": workers, "slots": slots})


def drain_queued(stand: Stand, jobs: int, workers: int, slots: int, after: int = 0) -> Drained:
    """Run workers until the `jobs` queued ones have ended; `after` is the last key before theirs."""
    stand.database.refresh_statistics()
    with stand.workers(workers, slots) as running:
        stand.log.wait(START, 1, stand.options.cap, running.are_alive)
        # Their start is over: processor time counts from here.
        before, worker, server = (
            len(stand.log.records),
            running.cpu_seconds(),
            stand.database.server_seconds(),
        )
        complete = stand.log.wait(START, jobs, stand.options.cap, running.are_alive)
        settled = _wait_settled(running, after, stand.options.cap) if complete else None
        counted = max(1, len(stand.log.records) - before)
        worker_ms = 1000 * (running.cpu_seconds() - worker) / counted
        server_now = stand.database.server_seconds()
    server_ms = None if server is None or server_now is None else 1000 * (server_now - server) / counted
    return Drained(stand.log.starts(), settled, worker_ms, server_ms, complete)


def _wait_settled(running: Workers, after: int, seconds: float) -> float | None:
    """Give the moment at which the store says that no newer job is unfinished, None where it never does."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and running.are_alive():
        if not queued_jobs.count_unfinished(after):
            return time.monotonic()
        time.sleep(0.02)
    return None

"""What becomes of the work when worker and slots are killed in the middle of it."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import queued_jobs
from benchmarks.figures import Figure
from benchmarks.records import END, START
from benchmarks.stand import Stand
from benchmarks.worker_processes import Workers

USUAL_JOBS = 500
MS = 20.0
SHARE_BEFORE = 0.3


@dataclass(frozen=True)
class _Crash:
    killed: float
    done_before: int
    in_flight: int


def measure(stand: Stand) -> Iterator[Figure]:
    """Give the time until all jobs had ended, and how many were begun twice or lost."""
    jobs = stand.options.jobs_or(USUAL_JOBS)
    stand.fresh()
    queued_jobs.submit_together(queued_jobs.make_tenancy(), jobs, ms=MS)
    stand.database.refresh_statistics()
    with stand.workers(1, stand.options.slots) as running:
        crash = _kill_in_the_middle(stand, running, int(jobs * SHARE_BEFORE))
    with stand.workers(1, stand.options.slots) as running:
        settled = _wait_ended(stand, running)
    yield from _figures(stand, crash, settled, jobs)


def _kill_in_the_middle(stand: Stand, running: Workers, first: int) -> _Crash:
    stand.log.wait(END, first, stand.options.cap, running.are_alive)
    ends = time.monotonic() + 5.0
    # Between two jobs nothing would be lost: wait until one runs.
    while not _in_flight(stand) and time.monotonic() < ends:
        time.sleep(0.001)
    running.kill()
    return _Crash(time.monotonic(), len(_numbers(stand, END)), len(_in_flight(stand)))


def _wait_ended(stand: Stand, running: Workers) -> float | None:
    """Give the moment at which no job was unfinished any more, None where that did not come."""
    ends = time.monotonic() + stand.options.cap
    while queued_jobs.count_unfinished():
        if time.monotonic() > ends or not running.are_alive():
            return None
        time.sleep(0.05)
    return time.monotonic()


def _figures(stand: Stand, crash: _Crash, settled: float | None, jobs: int) -> Iterator[Figure]:
    records = stand.log.read()
    starts = Counter(record.number for record in records if record.kind == START)
    later = [record.moment for record in records if record.moment > crash.killed]
    ideal = (jobs - crash.done_before) * MS / 1000 / stand.options.slots
    params = {
        "jobs": jobs,
        "ms": MS,
        "slots": stand.options.slots,
        "done_before": crash.done_before,
        "in_flight": crash.in_flight,
        "ideal_s": round(ideal, 3),
    }
    yield Figure("killed_to_next_start", min(later) - crash.killed if later else None, "s", params)
    yield Figure("killed_to_all_ended", settled and settled - crash.killed, "s", params)
    yield Figure("started_twice", sum(count > 1 for count in starts.values()), "jobs", params)
    yield Figure("lost", jobs - len(_numbers(stand, END)), "jobs", params)


def _numbers(stand: Stand, kind: str) -> set[int]:
    return {record.number for record in stand.log.read() if record.kind == kind}


def _in_flight(stand: Stand) -> set[int]:
    return _numbers(stand, START) - _numbers(stand, END)

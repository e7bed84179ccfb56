"""How fast workers are while other rows stand in the queue, against a queue without them."""

import time
from collections.abc import Iterator

from benchmarks import claim_time, queued_jobs, standing_rows
from benchmarks.drain import drain_queued
from benchmarks.figures import Figure
from benchmarks.queued_jobs import Tenancy
from benchmarks.stand import Stand

USUAL_JOBS = 2000
USUAL_ROWS = (0, 100_000, 1_000_000)
USUAL_ROWS_BLOCKED = (0, 100_000)


def measure(stand: Stand) -> Iterator[Figure]:
    """Give the figures of a drain, and the time of one claim, for each kind and number of rows."""
    for kind in stand.options.kinds or standing_rows.KINDS:
        usual = USUAL_ROWS_BLOCKED if kind == "blocked" else USUAL_ROWS
        for rows in stand.options.rows or usual:
            yield from _beside(stand, kind, rows)


def _beside(stand: Stand, kind: str, rows: int) -> Iterator[Figure]:
    jobs, slots = stand.options.jobs_or(USUAL_JOBS), stand.options.slots
    stand.fresh()
    tenancy = queued_jobs.make_tenancy()
    params = {"kind": kind, "rows": rows, "jobs": jobs, "slots": slots, "fill_s": _fill(tenancy, kind, rows)}
    before = queued_jobs.newest_key()
    queued_jobs.submit_together(tenancy, jobs)
    yield from drain_queued(stand, jobs, 1, slots, after=before).figures(params)
    yield Figure("standing_run", stand.log.standing_run(), "jobs", params)
    if kind == "blocked":
        yield from claim_time.measure_claims(tenancy, params)


def _fill(tenancy: Tenancy, kind: str, rows: int) -> float:
    """Put the rows in; give how many seconds that took."""
    began = time.monotonic()
    if rows:
        standing_rows.insert(tenancy, kind, rows)
        standing_rows.refresh_statistics()
    return round(time.monotonic() - began, 1)

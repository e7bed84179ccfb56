"""What a worker costs that has nothing to do."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks import process_table, queued_jobs
from benchmarks.figures import Figure
from benchmarks.records import START, WARMING
from benchmarks.stand import Stand
from benchmarks.worker_processes import Workers

WARM_UP = 4
# Connections and caches of the start are settled by then.
CALM = 3.0


@dataclass(frozen=True)
class _Reading:
    moment: float
    statements: int | None
    transactions: int | None
    worker: float
    server: float | None


def measure(stand: Stand) -> Iterator[Figure]:
    """Give statements and transactions per second, processor time in percent of one core, and memory."""
    stand.fresh()
    tenancy = queued_jobs.make_tenancy()
    seen = stand.database.watch_statements()
    with stand.workers(1, stand.options.slots, seen) as running:
        queued_jobs.submit_one_by_one(tenancy, WARM_UP, first=WARMING)
        stand.log.wait(START, WARM_UP, stand.options.cap, running.are_alive)
        time.sleep(CALM)
        before = _read(stand, running)
        time.sleep(stand.options.idle)
        after = _read(stand, running)
        memory = process_table.memory_mib(running.pids())
    params = {"seconds": stand.options.idle, "slots": stand.options.slots}
    yield from _figures(before, after, params)
    yield Figure("memory", memory, "MiB", params)


def _read(stand: Stand, running: Workers) -> _Reading:
    database = stand.database
    return _Reading(
        time.monotonic(),
        database.statements(),
        database.transactions(),
        running.cpu_seconds(),
        database.server_seconds(),
    )


def _figures(before: _Reading, after: _Reading, params: Mapping[str, object]) -> Iterator[Figure]:
    seconds = after.moment - before.moment
    for metric, unit, factor, first, last in (
        ("statements", "1/s", 1, before.statements, after.statements),
        ("transactions", "1/s", 1, before.transactions, after.transactions),
        ("worker_cpu", "% of a core", 100, before.worker, after.worker),
        ("server_cpu", "% of a core", 100, before.server, after.server),
    ):
        if first is not None and last is not None:
            yield Figure(metric, factor * (last - first) / seconds, unit, params)

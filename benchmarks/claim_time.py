"""The time of one claim, as a supervisor makes it. The only place here that knows the engine from inside."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import queued_jobs
from benchmarks.figures import Figure, percentile
from benchmarks.queued_jobs import Tenancy
from benchmarks.records import WARMING
from jobs import queue, registry
from jobs.models import Worker

CLAIMS = 60


def measure_claims(tenancy: Tenancy, params: Mapping[str, Any]) -> Iterator[Figure]:
    """Claim ready jobs one by one in the name of the last worker; give the middle time in milliseconds.

    No worker may be running. The claimed jobs stay RUNNING and are run by nobody.
    """
    # Not brief ones: of those the first claim would take all, and the others would find nothing.
    queued_jobs.submit_one_by_one(tenancy, CLAIMS, first=WARMING, ms=0.0)
    worker = Worker.objects.latest("started_at")
    times, got = [], 0
    for place in range(CLAIMS):
        began = time.monotonic()
        got += len(queue.claim(worker, [place], registry.known_types()))
        times.append(1000 * (time.monotonic() - began))
    yield Figure("claim_p50", percentile(times, 50), "ms", {**params, "claims": CLAIMS, "claimed": got})

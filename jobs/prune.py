"""PRUNE: takes away jobs that ended long ago. What they did stays in the audit trail.

In small batches of a transaction each, so that claims and beats never wait long. Jobs that wait for each
other go together, and only once all of them have ended long ago.
"""

import time
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from audit import trail
from audit.actions import Action
from audit.clock import database_now
from jobs.models import Job, JobDependency, JobEvent, UsedKey
from jobs.states import ENDED

BATCH = 100
# One pass ends after this long; the next goes on from there.
PASS_SECONDS = 20.0
LARGEST_CHAIN = 5_000


def prune(*, seconds: float = PASS_SECONDS) -> int:
    """Remove jobs that ended before the retention time, oldest first, and give how many.

    Safe to run in any number of processes and to be ended at any moment.
    """
    ends = time.monotonic() + seconds
    removed = 0
    after: tuple[datetime, int] | None = None
    while time.monotonic() < ends:
        seen, gone = _prune_batch(after)
        removed += gone
        if seen is None:
            break
        after = seen
    _forget_keys()
    return removed


def _prune_batch(after: tuple[datetime, int] | None) -> tuple[tuple[datetime, int] | None, int]:
    """Remove from one batch what may go; give where it ended (None at the end) and how many went."""
    with transaction.atomic():
        now = database_now()
        limit = now - timedelta(days=settings.CHP_JOB_RETENTION_DAYS)
        old = Job.objects.filter(status__in=ENDED, completed_at__lte=limit).order_by("completed_at", "pk")
        if after is not None:
            old = old.filter(completed_at__gte=after[0]).exclude(completed_at=after[0], pk__lte=after[1])
        batch = list(old.values_list("completed_at", "pk")[:BATCH])
        if not batch:
            return None, 0
        gone = _remove(_settled({pk for _, pk in batch}, limit), now)
        last, key = batch[-1]
        return (last or now, key), gone


def _settled(keys: set[int], limit: datetime) -> set[int]:
    """Give those of the jobs that may go, each with the whole chain that it belongs to."""
    chained = _relatives(keys)
    may_go = keys - chained
    for key in sorted(keys & chained):
        chain = _chain_of(key)
        if key not in may_go and chain and _all_old(chain, limit):
            may_go |= chain
    return may_go


def _relatives(keys: Collection[int]) -> set[int]:
    """Give those of the keys, and of their nearest, that wait for another or are waited for."""
    pairs = JobDependency.objects.filter(job_id__in=keys) | JobDependency.objects.filter(parent_id__in=keys)
    return {key for pair in pairs.values_list("job_id", "parent_id") for key in pair}


def _chain_of(key: int) -> set[int]:
    """Give all that is tied to a job by dependencies; nothing where that is too much to remove at once."""
    found, fresh = {key}, {key}
    while fresh and len(found) <= LARGEST_CHAIN:
        fresh = _relatives(fresh) - found
        found |= fresh
    return found if len(found) <= LARGEST_CHAIN else set()


def _all_old(chain: Collection[int], limit: datetime) -> bool:
    return not Job.objects.filter(pk__in=chain).exclude(status__in=ENDED, completed_at__lte=limit).exists()


def _remove(keys: set[int], now: datetime) -> int:
    rows = Job.objects.filter(pk__in=keys, status__in=ENDED).select_for_update(of=("self",)).order_by("pk")
    jobs = list(rows.only("pk", "idempotency_key", "fingerprint"))
    # Looked at again with the rows locked: one may have been retried meanwhile, or another wait for it now.
    # The next pass decides anew.
    if not jobs or len(jobs) < len(keys) or _relatives(keys) - keys:
        return 0
    gone = [job.pk for job in jobs]
    used = [
        UsedKey(key=job.idempotency_key, fingerprint=job.fingerprint, job_code=job.code, pruned_at=now)
        for job in jobs
        if job.idempotency_key is not None
    ]
    UsedKey.objects.bulk_create(used, ignore_conflicts=True)
    JobDependency.objects.filter(job_id__in=gone).delete()
    JobEvent.objects.filter(job_id__in=gone).delete()
    Job.objects.filter(pk__in=gone).delete()
    _record(jobs)
    return len(jobs)


def _record(jobs: list[Job]) -> None:
    codes = [job.code for job in jobs]
    entry = trail.Entry(
        Action.JOBS_PRUNED,
        "system (prune)",
        "SYSTEM",
        target=f"{codes[0]} to {codes[-1]}",
        reason=f"ended more than {settings.CHP_JOB_RETENTION_DAYS} days ago",
        result="removed",
        data={"jobs": codes},
    )
    trail.record(entry)


def _forget_keys() -> None:
    limit = database_now() - timedelta(days=settings.CHP_KEY_RETENTION_DAYS)
    old = UsedKey.objects.filter(pruned_at__lt=limit).order_by("pruned_at").values_list("pk", flat=True)
    UsedKey.objects.filter(pk__in=list(old[: BATCH * 10])).delete()

"""Crowds of jobs: many sites of a few customers, mixed work on them, and what is to become of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random

from django.db import transaction

from accounts.actor import operator
from accounts.models import Customer
from jobs import pipeline
from jobs.models import Job
from jobs.request import JobRequest
from jobs.states import Status
from sites.models import Server, Site, SiteState
from tests.engine.operations import EngineFlaky

MIX = {
    "ENGINE_COPY": 30,
    "ENGINE_CHANGE": 15,
    "ENGINE_RENEW": 10,
    "ENGINE_LOOK": 20,
    "ENGINE_PROBE": 15,
    "ENGINE_FLAKY": 10,
}
# So many sites have as much work as nearly a third of all: what conflicts meets often.
BUSY_SITES = 10
# Jobs per transaction: a commit for each would take most of the time.
BATCH = 500


@dataclass(frozen=True)
class Wish:
    """A request, and the state in which its job ends if nothing disturbs it."""

    request: JobRequest
    fate: Status


def make_sites(customers: Sequence[Customer], servers: Sequence[Server], number: int) -> list[Site]:
    """Make active sites, customers and servers in turn."""
    turns = zip(range(number), cycle(customers), cycle(servers), strict=False)
    rows = [
        Site(customer=customer, server=server, domain=name, display_domain=name, state=SiteState.ACTIVE)
        for turn, customer, server in turns
        for name in [f"crowd{turn}.test"]
    ]
    return Site.objects.bulk_create(rows)


def wishes(
    dice: Random, sites: Sequence[Site], mark: Path, seconds: Sequence[float], *, timed: bool
) -> Iterator[Wish]:
    """Give mixed requests without end. A job's work takes one of the `seconds`, evenly up to it."""
    kinds, weights = list(MIX), list(MIX.values())
    while True:
        (kind,) = dice.choices(kinds, weights)
        failures = dice.choice([0, 1, 5]) if kind == EngineFlaky.name else 0
        fate = Status.FAILED if failures >= EngineFlaky.profile.attempts else Status.SUCCESS
        payload = {
            "seconds": dice.uniform(0, dice.choice(seconds)),
            "failures": failures,
            "mark": str(mark),
            "timed": timed,
        }
        site = dice.choice(sites[:BUSY_SITES] if dice.random() < 0.3 else sites)
        yield Wish(JobRequest(kind, site.pk, payload), fate)


def submit(wanted: Iterable[Wish]) -> dict[int, Wish]:
    """Submit all, many in one transaction, and give each wish by its job's key."""
    asked, actor, made = iter(wanted), operator("root"), {}
    while batch := list(islice(asked, BATCH)):
        with transaction.atomic():
            made |= {pipeline.submit(actor, wish.request).job.pk: wish for wish in batch}
    return made


def is_over() -> bool:
    """Whether every job has ended."""
    waiting = (Status.QUEUED, Status.RUNNING, Status.CANCEL_REQUESTED)
    return not Job.objects.filter(status__in=waiting).exists()

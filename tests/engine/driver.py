"""The chaos itself: work is asked for, called off and resolved while everything below it fails at random."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from django.db import InterfaceError, OperationalError, connection

from accounts.actor import operator
from accounts.models import Customer, HostingPlan
from jobs import pipeline
from jobs.exceptions import Refused
from jobs.models import Job
from jobs.request import JobRequest
from jobs.states import HELD, Status
from sites.models import Server, Site
from tests.engine import crowd
from tests.engine.invariants import violations
from tests.engine.limits import BY_TYPE, OVERALL
from tests.engine.operations import ORPHANED_WHEN_LOST, EnginePing
from tests.engine.pool import Pool
from tests.engine.trouble import Trouble
from tests.engine.violation import Expected

logger = logging.getLogger(__name__)
SITES = 20
TICK = 0.1
# The queue is kept this long, and there are never more jobs than that altogether.
QUEUED = 40
MOST_JOBS = 50_000
WORK_SECONDS = (0.0, 0.02, 0.02, 0.2, 2.0, 2.0)
WARM_UP_SECONDS = 60.0
SETTLE_SECONDS = 120.0
# Between two troubles; a worker that was killed takes some seconds to be back.
PAUSE_SECONDS = (0.5, 2.0)
# How a job may fail here: by its own wish, or because a person said so of an orphan.
HONEST_ERRORS = ("failed", "worker_lost")


@dataclass
class Report:
    """What happened, in which states the jobs are, and every sentence about what was wrong."""

    happened: dict[str, int]
    states: dict[str, int]
    wrong: list[str]


class Driver:
    """One run. Each kind of decision has its own dice, so that a seed repeats the sequence of each."""

    def __init__(self, pool: Pool, troubles: Sequence[Trouble], marks: Path, seed: int) -> None:
        self._pool = pool
        self._marks = marks
        self._happened: Counter[str] = Counter()
        self._actor = operator("chaos")
        self._asking, self._deciding, self._disturbing = (
            Random(f"{seed} {part}") for part in ("asking", "deciding", "disturbing")
        )
        self._sites = _make_sites()
        self._wishes = crowd.wishes(self._asking, self._sites, marks, WORK_SECONDS, timed=False)
        self._troubles = [*pool.troubles(), *pool.troubles(), *troubles]
        self._next_trouble = 0.0

    def run(self, seconds: float) -> Report:
        """Make chaos for so long, then let everything come to its end and look at it."""
        self._warm_up()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for act in (self._ask, self._call_off, self._resolve_one):
                self._attempt(act)
            self._disturb_if_due()
            self._pool.tend()
            time.sleep(TICK)
        self._settle()
        self._pool.stop()
        return self._look()

    def _warm_up(self) -> None:
        """Let the workers do something before they are disturbed."""
        ends = time.monotonic() + WARM_UP_SECONDS
        while not Job.objects.filter(status=Status.SUCCESS).exists() and time.monotonic() < ends:
            self._attempt(self._ask)
            time.sleep(TICK)

    # --- People ----------------------------------------------------------------------------------
    def _ask(self) -> None:
        if Job.objects.filter(status=Status.QUEUED).count() >= QUEUED or Job.objects.count() >= MOST_JOBS:
            return
        wanted = [next(self._wishes).request for _ in range(self._asking.randint(1, 10))]
        if self._asking.random() < 0.3:
            site = self._asking.choice(self._sites)
            wanted.append(JobRequest(EnginePing.name, site.pk, {"mark": str(self._marks)}))
        for request in wanted:
            pipeline.submit(self._actor, request)
            self._happened["job asked for"] += 1

    def _call_off(self) -> None:
        if self._deciding.random() > 0.2:
            return
        open_jobs = Job.objects.filter(status__in=(Status.QUEUED, Status.RUNNING)).order_by("pk")
        keys = list(open_jobs.values_list("pk", flat=True))
        if keys:
            pipeline.cancel(self._actor, self._deciding.choice(keys), "chaos")
            self._happened["job called off"] += 1

    def _resolve_one(self) -> None:
        if self._deciding.random() < 0.05:
            self._resolve(Job.objects.filter(status=Status.ORPHANED).order_by("pk")[:1])

    def _resolve(self, orphans: Iterable[Job]) -> None:
        for job in orphans:
            outcome = self._deciding.choice([Status.RESOLVED, Status.FAILED])
            pipeline.resolve(self._actor, job.pk, outcome, "chaos")
            self._happened["orphan resolved"] += 1

    def _attempt(self, act: Callable[[], None]) -> None:
        """Let a person try something; a database that is away is the person's bad luck."""
        try:
            act()
        except Refused:
            self._happened["person refused"] += 1
        except (OperationalError, InterfaceError) as error:
            logger.info("the database is in trouble: %s", error)
            self._happened["person met the database in trouble"] += 1
            connection.close()

    def _disturb_if_due(self) -> None:
        if time.monotonic() < self._next_trouble:
            return
        trouble = self._disturbing.choice(self._troubles)
        logger.info("chaos: %s", trouble(self._disturbing))
        self._happened[trouble.__name__] += 1
        self._next_trouble = time.monotonic() + self._disturbing.uniform(*PAUSE_SECONDS)

    # --- The end ---------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Let everybody go on, and orphans be resolved, until all jobs have ended; for a bounded time."""
        self._pool.calm()
        ends = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < ends and not self._has_ended():
            self._attempt(lambda: self._resolve(Job.objects.filter(status=Status.ORPHANED)))
            self._pool.tend()
            time.sleep(TICK)

    def _has_ended(self) -> bool:
        connection.close_if_unusable_or_obsolete()
        return not Job.objects.filter(status__in=(Status.QUEUED, *HELD, Status.ORPHANED)).exists()

    def _look(self) -> Report:
        found = violations(
            Expected(
                overall=OVERALL,
                by_type=BY_TYPE,
                all_ended=True,
                orphans=ORPHANED_WHEN_LOST,
                marks=self._marks,
            )
        )
        wrong = [f"{violation.rule}: {violation.sentence}" for violation in found]
        states = Counter(Job.objects.values_list("status", flat=True))
        return Report(
            dict(self._happened), dict(states), [*wrong, *self._pool.complaints, *_dishonest_errors()]
        )


def _make_sites() -> list[Site]:
    plan, _ = HostingPlan.objects.get_or_create(
        code="premium", defaults={"name": "Premium", "most_sites": SITES}
    )
    customers = [Customer.objects.create(code=code, name=code, plan=plan) for code in ("chaos1", "chaos2")]
    return crowd.make_sites(customers, list(Server.objects.all()), SITES)


def _dishonest_errors() -> list[str]:
    """Give failures that are not the work's own: of the database, or of the engine."""
    failed = Job.objects.filter(status=Status.FAILED).exclude(error_code__in=HONEST_ERRORS)
    return [f"{job.code} failed with {job.error_code}: {job.error_message[:200]}" for job in failed]

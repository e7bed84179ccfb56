"""The operations that the benchmarks run: the whole road but the agent. They are installed nowhere else."""

import os
from dataclasses import replace
from importlib import import_module
from typing import ClassVar

from accounts.roles import Right
from benchmarks.installation import ORDINARY
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site

# Under the peer harness a job writes the harness's record, as the peers' jobs do; else one of ours.
RECORDS = import_module("pb.jobs" if "PB_RECORD" in os.environ else "benchmarks.records")


class NumberPayload(Payload):
    """`number`: which of the benchmark's jobs this is."""

    number: int


class SleepPayload(NumberPayload):
    """`ms`: for how many milliseconds."""

    ms: float


class Bench(Operation):
    """What both have in common: any number at once on a site, repeated when the worker is lost."""

    right: ClassVar[Right] = Right.BACKUP
    capability: ClassVar[Capability] = Capability.BACKUP
    profile: ClassVar[Profile] = Profile(
        category=Category.MAINTENANCE,
        lock=SiteLock.NONE,
        mutating=False,
        priority=Priority.NORMAL,
        attempts=10,
        timeout=600,
        on_lost=OnLost.REQUEUE,
    )

    def intend(self, site: Site, payload: NumberPayload) -> Intention:
        return Intention((Step("record", "Record the time."),))


class BenchNoop(Bench):
    """Records that it has started, and does nothing else."""

    name: ClassVar[str] = "BENCH_NOOP"
    title: ClassVar[str] = "benchmark"
    payload: ClassVar[type[Payload]] = NumberPayload
    profile: ClassVar[Profile] = replace(Bench.profile, brief=ORDINARY not in os.environ)

    def run(self, context: Context, payload: NumberPayload) -> Result:
        RECORDS.noop(payload.number)
        return {}


class BenchSleep(Bench):
    """Records its start, sleeps, and records its end."""

    name: ClassVar[str] = "BENCH_SLEEP"
    title: ClassVar[str] = "benchmark sleep"
    payload: ClassVar[type[Payload]] = SleepPayload

    def run(self, context: Context, payload: SleepPayload) -> Result:
        RECORDS.sleepy(payload.number, payload.ms)
        return {}


OPERATIONS: tuple[type[Operation], ...] = (BenchNoop, BenchSleep)

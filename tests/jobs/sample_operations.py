"""Small operations for tests of the engine: they take the whole road but the agent."""

import os
import time
from pathlib import Path
from typing import ClassVar, Literal

from accounts.roles import Right
from jobs.exceptions import AttemptFailed, CancelAsked, NotStarted, WorkLost
from jobs.models import Job
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site


class SamplePayload(Payload):
    """`how`: what the run does. `seconds`: for how long. `mark`: a file that gets a line per run."""

    how: Literal["work", "fail", "refuse", "busy", "lose", "break", "exit", "unsettled", "unstoppable"] = (
        "work"
    )
    seconds: float = 0.0
    mark: str = ""


def _profile(lock: SiteLock, *, mutating: bool, on_lost: OnLost, attempts: int) -> Profile:
    return Profile(
        category=Category.MAINTENANCE,
        lock=lock,
        mutating=mutating,
        priority=Priority.NORMAL,
        attempts=attempts,
        timeout=60,
        on_lost=on_lost,
    )


class Sample(Operation):
    """Read-only, exclusive, three attempts without a pause: as BACKUP stands."""

    name: ClassVar[str] = "SAMPLE"
    title: ClassVar[str] = "sample"
    right: ClassVar[Right] = Right.BACKUP
    capability: ClassVar[Capability] = Capability.BACKUP
    payload: ClassVar[type[Payload]] = SamplePayload
    profile: ClassVar[Profile] = _profile(
        SiteLock.EXCLUSIVE, mutating=False, on_lost=OnLost.REQUEUE, attempts=3
    )

    def intend(self, site: Site, payload: SamplePayload) -> Intention:
        return Intention((Step("work", f"Work on {site}."),))

    def run(self, context: Context, payload: SamplePayload) -> Result:
        if payload.mark:
            with Path(payload.mark).open("a") as file:
                file.write(f"{context.job.code} {context.job.epoch} {os.getpid()}\n")
        _misbehave(payload.how)
        ends = time.monotonic() + payload.seconds
        while time.monotonic() < ends:
            context.checkpoint("working")
            time.sleep(0.05)
        context.progress(50, "half way")
        return {"done": True}

    def settle(self, job: Job, payload: SamplePayload, result: Result) -> None:
        if payload.how == "unsettled":
            raise ValueError("the result does not fit")


class SampleChange(Sample):
    """Mutating and never repeated by itself: as RESTORE stands."""

    name: ClassVar[str] = "SAMPLE_CHANGE"
    title: ClassVar[str] = "sample change"
    right: ClassVar[Right] = Right.RESTORE
    capability: ClassVar[Capability] = Capability.RESTORE
    profile: ClassVar[Profile] = _profile(
        SiteLock.EXCLUSIVE, mutating=True, on_lost=OnLost.ORPHAN, attempts=1
    )


class SampleLook(Sample):
    """Shared: as VERIFY stands."""

    name: ClassVar[str] = "SAMPLE_LOOK"
    title: ClassVar[str] = "sample look"
    profile: ClassVar[Profile] = _profile(SiteLock.SHARED, mutating=False, on_lost=OnLost.REQUEUE, attempts=1)


class SampleBrief(Sample):
    """Takes no time, needs no site lock and may come several at once: as a look from outside stands."""

    name: ClassVar[str] = "SAMPLE_BRIEF"
    title: ClassVar[str] = "sample brief"
    profile: ClassVar[Profile] = Profile(
        category=Category.OBSERVATION,
        lock=SiteLock.NONE,
        mutating=False,
        priority=Priority.NORMAL,
        attempts=3,
        timeout=60,
        on_lost=OnLost.REQUEUE,
        brief=True,
    )


def _misbehave(how: str) -> None:
    if how == "fail":
        raise AttemptFailed("it did not work")
    if how == "refuse":
        raise AttemptFailed("it can never work", retryable=False)
    if how == "busy":
        raise NotStarted("the site is busy", busy=True)
    if how == "lose":
        raise WorkLost("the agent died")
    if how == "unstoppable":
        raise CancelAsked("asked to stop", stopped=False)
    if how == "break":
        raise RuntimeError("a bug")
    if how == "exit":
        os._exit(9)


OPERATIONS = (Sample, SampleChange, SampleLook, SampleBrief)

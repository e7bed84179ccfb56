"""Small operations for tests of the engine: they take the whole road but the agent."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from accounts.roles import Right
from jobs.exceptions import AttemptFailed, CancelAsked, NotStarted, WorkLost
from jobs.models import Job
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site

How = Literal[
    "work",
    "fail",
    "refuse",
    "busy",
    "lose",
    "break",
    "exit",
    "unsettled",
    "unstoppable",
    "fail_when_cancelled",
    "doze",
    "deaf",
    "hang_up",
    "spawn",
    "spawn_deaf",
    "spin",
    "hold_interpreter",
]


class SamplePayload(Payload):
    """`how`: what the run does. `seconds`: for how long. `mark`: a file that gets a line per run."""

    how: How = "work"
    seconds: float = 0.0
    mark: str = ""


def _profile(
    lock: SiteLock, *, mutating: bool, on_lost: OnLost, attempts: int, brief: bool = False
) -> Profile:
    return Profile(
        category=Category.MAINTENANCE,
        lock=lock,
        mutating=mutating,
        priority=Priority.NORMAL,
        attempts=attempts,
        timeout=60,
        on_lost=on_lost,
        brief=brief,
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
        _mark(payload, f"{context.job.code} {context.job.epoch} {os.getpid()}")
        if payload.how in _FAULTS:
            _FAULTS[payload.how](payload)
            _mark(payload, "over")
            return {"done": True}
        try:
            self._work(context, payload)
        except CancelAsked as error:
            if payload.how != "fail_when_cancelled":
                raise
            raise AttemptFailed("it broke while it stopped") from error
        return {"done": True}

    def settle(self, job: Job, payload: SamplePayload, result: Result) -> None:
        if payload.how == "unsettled":
            raise ValueError("the result does not fit")

    def _work(self, context: Context, payload: SamplePayload) -> None:
        ends = time.monotonic() + payload.seconds
        while time.monotonic() < ends:
            context.checkpoint("working")
            time.sleep(0.05)
        context.progress(50, "half way")


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
    """Brief: a slot may be handed several at once."""

    name: ClassVar[str] = "SAMPLE_BRIEF"
    title: ClassVar[str] = "sample of brief work"
    profile: ClassVar[Profile] = _profile(
        SiteLock.NONE, mutating=False, on_lost=OnLost.REQUEUE, attempts=3, brief=True
    )


def _mark(payload: SamplePayload, line: str) -> None:
    if payload.mark:
        with Path(payload.mark).open("a") as file:
            file.write(f"{line}\n")


def _fail(payload: SamplePayload) -> None:
    raise AttemptFailed("it did not work")


def _refuse(payload: SamplePayload) -> None:
    raise AttemptFailed("it can never work", retryable=False)


def _busy(payload: SamplePayload) -> None:
    raise NotStarted("the site is busy", busy=True)


def _lose(payload: SamplePayload) -> None:
    raise WorkLost("the agent died")


def _unstoppable(payload: SamplePayload) -> None:
    raise CancelAsked("asked to stop", stopped=False)


def _break(payload: SamplePayload) -> None:
    raise RuntimeError("a bug")


def _exit(payload: SamplePayload) -> None:
    os._exit(9)


def _doze(payload: SamplePayload) -> None:
    """Work without a word to the database."""
    time.sleep(payload.seconds)


def _deaf(payload: SamplePayload) -> None:
    """Let no signal but the last one through, and look at no deadline."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    time.sleep(payload.seconds)


def _hang_up(payload: SamplePayload) -> None:
    """Close everything, the pipe to the supervisor too, and go on."""
    os.closerange(3, 1024)
    time.sleep(payload.seconds)


def _spawn(payload: SamplePayload) -> None:
    """Start a child that outlives its parent, and wait for it."""
    child = subprocess.Popen(["sleep", "300"])
    _mark(payload, f"child {child.pid}")
    child.wait()


def _spawn_deaf(payload: SamplePayload) -> None:
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 300"])
    _mark(payload, f"child {child.pid}")
    child.wait()


def _spin(payload: SamplePayload) -> None:
    """Keep the processor busy."""
    ends = time.monotonic() + payload.seconds
    while time.monotonic() < ends:
        pass


def _hold_interpreter(payload: SamplePayload) -> None:
    """Keep the interpreter's lock: a thread beside this one would hardly come to its turn."""
    ends = time.monotonic() + payload.seconds
    while time.monotonic() < ends:
        sum(range(30_000_000))


_FAULTS: dict[str, Callable[[SamplePayload], None]] = {
    "fail": _fail,
    "refuse": _refuse,
    "busy": _busy,
    "lose": _lose,
    "break": _break,
    "exit": _exit,
    "unstoppable": _unstoppable,
    "doze": _doze,
    "deaf": _deaf,
    "hang_up": _hang_up,
    "spawn": _spawn,
    "spawn_deaf": _spawn_deaf,
    "spin": _spin,
    "hold_interpreter": _hold_interpreter,
}


def misbehave(how: str, payload: SamplePayload) -> None:
    """Do what is asked for where that is a fault; nothing else."""
    if how in _FAULTS:
        _FAULTS[how](payload)


OPERATIONS = (Sample, SampleChange, SampleLook, SampleBrief)

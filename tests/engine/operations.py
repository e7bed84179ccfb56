"""The mixed work of the engine's tests: every lock, every fate, very short; each run leaves its marks."""

import time
from typing import ClassVar

from accounts.roles import Right
from agent.declarations.system import Ping
from jobs.exceptions import AttemptFailed
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site
from tests.engine import marks

# So many that losing workers, however often, never uses them up.
UNTIRING = 1000
CHECKPOINT_SECONDS = 0.05


class EnginePayload(Payload):
    """`seconds`: how long it works. `failures`: how many attempts fail first. `mark`, `timed`: see marks."""

    seconds: float = 0.0
    failures: int = 0
    mark: str = ""
    timed: bool = False


def _profile(
    lock: SiteLock, *, mutating: bool = False, on_lost: OnLost = OnLost.REQUEUE, attempts: int = UNTIRING
) -> Profile:
    return Profile(
        category=Category.MAINTENANCE,
        lock=lock,
        mutating=mutating,
        priority=Priority.NORMAL,
        attempts=attempts,
        timeout=300,
        on_lost=on_lost,
        retry_delays=(0,),
    )


class EngineCopy(Operation):
    """Alone on its site, changes nothing, repeated when lost: as BACKUP stands."""

    name: ClassVar[str] = "ENGINE_COPY"
    title: ClassVar[str] = "engine copy"
    right: ClassVar[Right] = Right.BACKUP
    capability: ClassVar[Capability] = Capability.BACKUP
    payload: ClassVar[type[Payload]] = EnginePayload
    profile: ClassVar[Profile] = _profile(SiteLock.EXCLUSIVE)

    def intend(self, site: Site, payload: EnginePayload) -> Intention:
        return Intention((Step("work", f"Work on {site}."),))

    def run(self, context: Context, payload: EnginePayload) -> Result:
        _mark(context, payload, "start")
        try:
            self.work(context, payload)
        finally:
            _mark(context, payload, "end")
        return {"epoch": context.job.epoch}

    def work(self, context: Context, payload: EnginePayload) -> None:
        """Take the time that was asked for, with checkpoints."""
        ends = time.monotonic() + payload.seconds
        while (left := ends - time.monotonic()) > 0:
            context.checkpoint("working")
            time.sleep(min(left, CHECKPOINT_SECONDS))


class EngineChange(EngineCopy):
    """Alone on its site, changes it, orphaned when lost: as RESTORE stands."""

    name: ClassVar[str] = "ENGINE_CHANGE"
    title: ClassVar[str] = "engine change"
    profile: ClassVar[Profile] = _profile(
        SiteLock.EXCLUSIVE, mutating=True, on_lost=OnLost.ORPHAN, attempts=1
    )


class EngineRenew(EngineCopy):
    """Alone on its site, changes it, but safe to repeat: as SSL_RENEW stands."""

    name: ClassVar[str] = "ENGINE_RENEW"
    title: ClassVar[str] = "engine renewal"
    profile: ClassVar[Profile] = _profile(SiteLock.EXCLUSIVE, mutating=True)


class EngineLook(EngineCopy):
    """Beside others that look or copy: as VERIFY stands."""

    name: ClassVar[str] = "ENGINE_LOOK"
    title: ClassVar[str] = "engine look"
    profile: ClassVar[Profile] = _profile(SiteLock.SHARED)


class EngineProbe(EngineCopy):
    """Beside everything: as HEALTH stands."""

    name: ClassVar[str] = "ENGINE_PROBE"
    title: ClassVar[str] = "engine probe"
    profile: ClassVar[Profile] = _profile(SiteLock.NONE)


class EngineFlaky(EngineCopy):
    """Fails `failures` times, then succeeds if it has an attempt left."""

    name: ClassVar[str] = "ENGINE_FLAKY"
    title: ClassVar[str] = "engine flaky work"
    profile: ClassVar[Profile] = _profile(SiteLock.SHARED, attempts=3)

    def work(self, context: Context, payload: EnginePayload) -> None:
        super().work(context, payload)
        if context.job.attempt <= payload.failures:
            raise AttemptFailed("it was asked to fail")


class EnginePing(EngineProbe):
    """Asks the real agent for a sign of life."""

    name: ClassVar[str] = "ENGINE_PING"
    title: ClassVar[str] = "engine ping"

    def work(self, context: Context, payload: EnginePayload) -> None:
        super().work(context, payload)
        context.agent("ping", Ping())


def _mark(context: Context, payload: EnginePayload, phase: marks.Phase) -> None:
    if payload.mark:
        job = context.job
        marks.write(payload.mark, job.code, job.epoch, phase, timed=payload.timed)


OPERATIONS = (EngineCopy, EngineChange, EngineRenew, EngineLook, EngineProbe, EngineFlaky, EnginePing)
# The only ones whose loss is a person's business.
ORPHANED_WHEN_LOST = frozenset({EngineChange.name})

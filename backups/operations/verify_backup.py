"""VERIFY: read a backup back, on demand."""

from typing import ClassVar

from pydantic import Field

from accounts.roles import Right
from backups import artifacts
from backups.models import Backup, Fate, Integrity
from jobs.exceptions import AttemptFailed, NotReady
from jobs.models import Job
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, Load, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site

CHECKABLE = (Integrity.VERIFIED, Integrity.CORRUPTED)


class VerifyPayload(Payload):
    """`backup`: its code. `deep`: also restore it into scratch space."""

    backup: str = Field(pattern=r"^BK-[0-9]{8}-[0-9]{6}(-[1-9][0-9]{0,5})?$", max_length=32)
    deep: bool = False


class VerifyBackup(Operation):
    """What fails is CORRUPTED and loses its protection at once; what passes has a newer proof."""

    name: ClassVar[str] = "VERIFY"
    title: ClassVar[str] = "verification"
    right: ClassVar[Right] = Right.BACKUP
    capability: ClassVar[Capability] = Capability.BACKUP
    payload: ClassVar[type[Payload]] = VerifyPayload
    profile: ClassVar[Profile] = Profile(
        category=Category.OBSERVATION,
        lock=SiteLock.SHARED,
        mutating=False,
        priority=Priority.LOW,
        attempts=2,
        retry_delays=(60,),
        timeout=7200,
        on_lost=OnLost.REQUEUE,
        disk=Load.HEAVY,
    )

    def intend(self, site: Site, payload: VerifyPayload) -> Intention:
        backup = backup_of(site, payload.backup)
        if backup.integrity not in CHECKABLE:
            raise NotReady(f"{backup.code} is {backup.get_integrity_display()}; there is nothing to verify.")
        depth = " and restore it into scratch space" if payload.deep else ""
        return Intention((Step("verify", f"Read {backup.code} back from store {backup.store}{depth}."),))

    def run(self, context: Context, payload: VerifyPayload) -> Result:
        backup = backup_of(context.site, payload.backup)
        report = context.agent("verify", artifacts.verify_request(backup, deep=payload.deep))
        if not report["verified"]:
            message = "; ".join(str(problem) for problem in report["problems"][:5])
            context.record(lambda: artifacts.mark(backup, Integrity.CORRUPTED, message))
            raise AttemptFailed(f"{backup.code} is CORRUPTED: {message}", code="corrupted", retryable=False)
        return report

    def settle(self, job: Job, payload: VerifyPayload, result: Result) -> None:
        artifacts.mark_verified(Backup.objects.select_for_update().get(code=payload.backup))


def backup_of(site: Site, code: str) -> Backup:
    """Give a backup of this very site. Raises NotReady for another's as for a missing or deleted one."""
    backup = Backup.objects.filter(site=site, code=code).exclude(fate=Fate.DELETED).first()
    if backup is None:
        raise NotReady(f"{site} has no backup {code}.")
    return backup

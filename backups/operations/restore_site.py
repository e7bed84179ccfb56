"""RESTORE: bring a site back to a verified backup, with a safety backup first and a way back after."""

from typing import ClassVar, Literal

from pydantic import Field

from accounts.roles import Right
from agent.declarations.backup import RestoreBackup
from backups import artifacts
from backups.models import Backup, Integrity, ScheduleType
from backups.operations.back_up_site import require_verified
from backups.operations.verify_backup import backup_of
from jobs.exceptions import AttemptFailed, NotReady
from jobs.models import EventType, Job, Level
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, Load, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site, SiteState

SERVER_ERROR = 500


class RestorePayload(Payload):
    """`backup`: its code. `scope`: the whole site, its files and its databases."""

    backup: str = Field(pattern=r"^BK-[0-9]{8}-[0-9]{6}(-[1-9][0-9]{0,5})?$", max_length=32)
    scope: Literal["WHOLE"] = "WHOLE"


class RestoreSite(Operation):
    """Never repeated by itself: a lost restore is ORPHANED and a person decides."""

    name: ClassVar[str] = "RESTORE"
    title: ClassVar[str] = "restore"
    right: ClassVar[Right] = Right.RESTORE
    capability: ClassVar[Capability] = Capability.RESTORE
    needs_plan: ClassVar[bool] = True
    payload: ClassVar[type[Payload]] = RestorePayload
    profile: ClassVar[Profile] = Profile(
        category=Category.RECOVERY,
        lock=SiteLock.EXCLUSIVE,
        mutating=True,
        priority=Priority.CRITICAL,
        attempts=1,
        timeout=10800,
        on_lost=OnLost.ORPHAN,
        disk=Load.HEAVY,
        database=Load.HEAVY,
    )

    def intend(self, site: Site, payload: RestorePayload) -> Intention:
        backup = backup_of(site, payload.backup)
        if backup.integrity != Integrity.VERIFIED:
            raise NotReady(
                f"{backup.code} is {backup.get_integrity_display()}; only a verified one is restored."
            )
        if site.state not in (SiteState.ACTIVE, SiteState.SUSPENDED):
            raise NotReady(f"{site} is {site.get_state_display()}; provision it before a restore.")
        return Intention(
            (
                Step("safety", f"Back up {site} as it is now (PRE_RESTORE) and verify that copy."),
                Step("restore", f"Unpack {backup.code} beside the site, check it, and swap the two at once."),
                Step(
                    "check", "Ask the web server for the first page; go back to the safety copy if it fails."
                ),
            ),
            {"backup": backup.code, "manifest_sha256": backup.manifest_sha256},
        )

    def run(self, context: Context, payload: RestorePayload) -> Result:
        backup = backup_of(context.site, payload.backup)
        safety = self._safety_copy(context)
        try:
            restored = context.agent("restore", _restore_request(context.site, backup), share=(40, 95))
        except AttemptFailed as error:
            self._go_back_if_touched(context, safety, error)
            raise
        return {**restored, "safety_backup": safety.code}

    def verify(self, context: Context, payload: RestorePayload, result: Result) -> None:
        if result["status"] < SERVER_ERROR:
            return
        safety = Backup.objects.get(code=result["safety_backup"])
        context.event(f"the site answers {result['status']}: going back to {safety.code}", level=Level.ERROR)
        context.agent("rollback", _restore_request(context.site, safety), share=(95, 100))
        raise AttemptFailed(
            f"{context.site} answered {result['status']} after the restore of {payload.backup}; "
            f"rolled back to {safety.code}, the state before.",
            code="rolled_back",
            retryable=False,
        )

    def settle(self, job: Job, payload: RestorePayload, result: Result) -> None:
        """Nothing but the job's own result changes: the site is what the backup was."""

    def settle_failure(self, job: Job, message: str, *, in_doubt: bool) -> None:
        if not in_doubt:
            artifacts.fail_unfinished(job, message)

    def _go_back_if_touched(self, context: Context, safety: Backup, error: AttemptFailed) -> None:
        """Files are swapped or not at all; a server database may be left half loaded."""
        if artifacts.database_references(context.site):
            context.event(f"restore failed ({error}): going back to {safety.code}", level=Level.ERROR)
            context.agent("rollback", _restore_request(context.site, safety), share=(95, 100))

    def _safety_copy(self, context: Context) -> Backup:
        kind = ScheduleType.PRE_RESTORE
        safety = context.record(lambda: artifacts.begin(context.job, kind))
        created = context.agent("safety", artifacts.create_request(context.site, safety), share=(0, 25))
        context.record(lambda: artifacts.note_created(safety, created))
        report = context.agent("safety-check", artifacts.verify_request(safety), share=(25, 40))
        require_verified(safety, report)
        if safety.integrity == Integrity.PARTIAL:
            # A damaged site may well be unreadable in parts: that must not keep it from being restored.
            message = f"{safety.code} lacks {len(safety.skipped)} paths that could not be read"
            context.event(message, event_type=EventType.PROGRESS, level=Level.WARNING)
        else:
            context.record(lambda: artifacts.mark_verified(safety))
        return safety


def _restore_request(site: Site, backup: Backup) -> RestoreBackup:
    return RestoreBackup(
        site_id=site.pk,
        domain=site.domain,
        backup=backup.code,
        store=backup.store,
        manifest_sha256=backup.manifest_sha256,
        databases=artifacts.database_references(site),
    )

"""BACKUP: make an artifact of a site's files and databases, and read it back."""

from typing import ClassVar, Literal

from accounts.actor import Actor
from accounts.roles import Right
from backups import artifacts
from backups.models import Backup, Integrity, ScheduleType
from jobs.exceptions import AttemptFailed, Forbidden, NotReady
from jobs.models import Job
from jobs.operation import Context, Intention, Operation, Payload, Result, Step
from jobs.profile import Category, Load, OnLost, Priority, Profile, SiteLock
from sites.capabilities import Capability
from sites.models import Site, SiteState

BACKED_UP_STATES = (SiteState.ACTIVE, SiteState.SUSPENDED)


class BackUpPayload(Payload):
    """`schedule_type`: why the backup is made, which decides how long it is kept."""

    schedule_type: Literal["MANUAL", "DAILY", "WEEKLY", "MONTHLY"] = "MANUAL"


class BackUpSite(Operation):
    """Safe to repeat: each attempt makes its own artifact, or takes over a lost attempt's finished one."""

    name: ClassVar[str] = "BACKUP"
    title: ClassVar[str] = "backup"
    right: ClassVar[Right] = Right.BACKUP
    capability: ClassVar[Capability] = Capability.BACKUP
    payload: ClassVar[type[Payload]] = BackUpPayload
    profile: ClassVar[Profile] = Profile(
        category=Category.MAINTENANCE,
        lock=SiteLock.EXCLUSIVE,
        mutating=False,
        priority=Priority.NORMAL,
        attempts=3,
        retry_delays=(1800, 3600),
        timeout=7200,
        on_lost=OnLost.REQUEUE,
        disk=Load.HEAVY,
        database=Load.HEAVY,
    )

    def intend(self, site: Site, payload: BackUpPayload) -> Intention:
        if site.state not in BACKED_UP_STATES:
            raise NotReady(
                f"{site} is {site.get_state_display()}; only a site that is active can be backed up."
            )
        databases = [reference.name for reference in artifacts.database_references(site)]
        return Intention(
            (
                Step("create", f"Copy the files and databases of {site} into store {site.server.store}."),
                Step("verify", "Read the copy back: checksums, archive list, database contents."),
            ),
            {"databases": databases},
        )

    def require_asker(self, actor: Actor, payload: BackUpPayload) -> None:
        # A role decides how long a backup is kept and which others it pushes out.
        if payload.schedule_type != "MANUAL" and not actor.may_operate:
            raise Forbidden(f"Only staff and the schedule ask for {payload.schedule_type}; ask for MANUAL.")

    def run(self, context: Context, payload: BackUpPayload) -> Result:
        backup, created = self._taken_over(context)
        if backup is None or created is None:
            kind = ScheduleType(payload.schedule_type)
            backup = context.record(lambda: artifacts.begin(context.job, kind))
            request = artifacts.create_request(context.site, backup)
            created = context.agent("create", request, share=(0, 70))
        return noted(context, backup, created)

    def verify(self, context: Context, payload: BackUpPayload, result: Result) -> None:
        backup = Backup.objects.get(code=result["backup"])
        report = context.agent("verify", artifacts.verify_request(backup), share=(70, 100))
        require_verified(backup, report)

    def settle(self, job: Job, payload: BackUpPayload, result: Result) -> None:
        artifacts.mark_verified(Backup.objects.select_for_update().get(code=result["backup"]))

    def settle_failure(self, job: Job, message: str, *, in_doubt: bool) -> None:
        if not in_doubt:
            artifacts.fail_unfinished(job, message)

    def _taken_over(self, context: Context) -> tuple[Backup | None, Result | None]:
        """Give the artifact that a lost attempt finished by the journal's word; end those that it did not."""
        created = context.earlier("create")
        unfinished = Backup.objects.filter(job_id=context.job.pk, integrity=Integrity.CREATING)
        backup = unfinished.filter(code=created["backup"]).first() if created else None
        if backup is None:
            context.record(
                lambda: artifacts.fail_unfinished(context.job, "the attempt that made it was lost")
            )
        else:
            context.event(f"{backup.code} of the lost attempt is complete and taken over")
        return backup, created if backup else None


def noted(context: Context, backup: Backup, created: Result) -> Result:
    """Write down what the agent made and give the job's result. Raises AttemptFailed for a partial one."""
    context.record(lambda: artifacts.note_created(backup, created))
    if backup.integrity == Integrity.PARTIAL:
        named = ", ".join(str(path) for path in created["skipped"][:5])
        raise AttemptFailed(
            f"{backup.code} is partial and does not count: {len(created['skipped'])} paths "
            f"could not be read: {named}. Mend their permissions and back up again.",
            code="partial",
            retryable=False,
        )
    return {
        "backup": backup.code,
        "path": backup.path,
        "size_bytes": backup.size_bytes,
        "files": backup.files,
        "databases": created["databases"],
    }


def require_verified(backup: Backup, report: Result) -> None:
    """Raise AttemptFailed unless the agent read the artifact back without a problem."""
    if not report["verified"]:
        problems = "; ".join(str(problem) for problem in report["problems"][:5])
        raise AttemptFailed(f"{backup.code} did not verify: {problems}", code="not_verified")

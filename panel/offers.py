"""Which buttons a person is shown. A hint only: the pipeline decides, and decides again."""

from collections.abc import Iterable
from dataclasses import dataclass

from accounts.actor import Actor
from accounts.roles import Right
from backups.models import Backup, Fate, Integrity
from backups.operations.verify_backup import CHECKABLE
from jobs import registry
from jobs.models import Job
from jobs.states import Status
from sites.models import Site, SiteState
from sites.queries import rights_on

LIVING = (SiteState.ACTIVE, SiteState.SUSPENDED)
CANCELLABLE = (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True)
class Offers:
    """What a person may ask for on one site, and a sentence where that is not everything."""

    back_up: bool
    verify: bool
    restore: bool
    note: str = ""


def offers_on(actor: Actor, site: Site) -> Offers:
    """Give what the buttons of a site's page are. One query."""
    rights = rights_on(actor, site)
    return Offers(
        back_up=_allows("BACKUP", rights, site),
        verify=_allows("VERIFY", rights, site),
        restore=Right.APPROVE in rights and _allows("RESTORE", rights, site),
        note=_note(rights, site),
    )


def may_cancel(actor: Actor, job: Job) -> bool:
    """Say whether a person may call this job off now."""
    return job.status in CANCELLABLE and _may_ask_for(actor, job)


def may_retry(actor: Actor, job: Job) -> bool:
    """Say whether a person may have this failed job queued again; an approval served one run."""
    operation = registry.operations().get(job.job_type)
    if job.status != Status.FAILED or operation is None or operation.needs_plan:
        return False
    return _may_ask_for(actor, job)


def verifiable(backups: Iterable[Backup]) -> set[int]:
    """Give the keys of those that can be read back."""
    return {row.pk for row in backups if row.integrity in CHECKABLE and row.fate != Fate.DELETED}


def restorable(backups: Iterable[Backup]) -> set[int]:
    """Give the keys of those that a site can be brought back to."""
    return {row.pk for row in backups if row.integrity == Integrity.VERIFIED and row.fate != Fate.DELETED}


def _may_ask_for(actor: Actor, job: Job) -> bool:
    operation = registry.operations().get(job.job_type)
    if job.site is None or operation is None or job.site.state == SiteState.DELETED:
        return False
    return operation.right in rights_on(actor, job.site) and job.site.may(operation.capability)


def _allows(name: str, rights: frozenset[Right], site: Site) -> bool:
    operation = registry.operations().get(name)
    if operation is None or site.state not in LIVING:
        return False
    return operation.right in rights and site.may(operation.capability)


def _note(rights: frozenset[Right], site: Site) -> str:
    if site.state not in LIVING:
        return f"This site is {site.get_state_display()}: no work can be started on it."
    if Right.BACKUP not in rights:
        return "You may look at this site, but not start work on it."
    if site.preset == "READ_ONLY":
        return "This site is read-only: it can be backed up, not changed or restored."
    if Right.RESTORE not in rights:
        return "You may back this site up; a restore is asked for by an owner."
    return ""

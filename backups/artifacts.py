"""The life of an artifact's row: begun, verified, or ended otherwise. Called inside a transaction."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from agent.declarations.backup import CreateBackup, DatabaseRef, VerifyBackup
from audit.clock import database_now
from audit.redaction import clean_data, clean_text
from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from provisioning.resources import databases_of
from sites.models import Site

MOST_SUFFIXES = 1000


def begin(job: Job, schedule_type: ScheduleType) -> Backup:
    """Make the row of a new artifact with its code: the UTC second, with a suffix where that is taken."""
    if job.site is None:
        raise ValueError(f"{job.code} has no site")
    now = database_now()
    stem = f"BK-{now:%Y%m%d-%H%M%S}"
    row = Backup(
        site=job.site,
        server=job.site.server,
        job=job,
        store=job.site.server.store,
        schedule_type=schedule_type,
        created_at=now,
    )
    for number in range(MOST_SUFFIXES):
        row.code = f"{stem}-{number}" if number else stem
        try:
            with transaction.atomic():
                row.save(force_insert=True)
            return row
        except IntegrityError:
            row.pk = None
    raise ValueError(f"no free code beside {stem}")


def note_created(backup: Backup, created: Mapping[str, Any]) -> None:
    """Write down what the agent says it made. A partial artifact is marked as such and never counts."""
    backup.path = str(created["path"])
    backup.size_bytes = int(created["size_bytes"])
    backup.files = int(created["files"])
    backup.databases = clean_data(created["databases"])
    backup.manifest_sha256 = str(created["manifest_sha256"])
    backup.skipped = clean_data(created["skipped"])
    if created["integrity"] != "COMPLETE":
        backup.integrity = Integrity.PARTIAL
        backup.error_message = f"{len(created['skipped'])} paths could not be read"
    backup.save()


def mark_verified(backup: Backup) -> None:
    """Let the artifact count as a recovery point from now on."""
    backup.integrity = Integrity.VERIFIED
    backup.verified_at = database_now()
    backup.error_message = ""
    backup.save(update_fields=["integrity", "verified_at", "error_message"])


def mark(backup: Backup, integrity: Integrity, message: str) -> None:
    """Note that the artifact does not count, and why."""
    backup.integrity = integrity
    backup.error_message = clean_text(message)
    backup.save(update_fields=["integrity", "error_message"])


def fail_unfinished(job: Job, message: str) -> None:
    """End the rows that a job's attempt left in CREATING."""
    Backup.objects.filter(job_id=job.pk, integrity=Integrity.CREATING).update(
        integrity=Integrity.FAILED, error_message=clean_text(message)
    )


def create_request(site: Site, backup: Backup) -> CreateBackup:
    """Give the agent's action that makes this artifact."""
    return CreateBackup(
        site_id=site.pk,
        domain=site.domain,
        backup=backup.code,
        store=backup.store,
        databases=database_references(site),
    )


def verify_request(backup: Backup, *, deep: bool = False) -> VerifyBackup:
    """Give the agent's action that reads this artifact back."""
    return VerifyBackup(
        site_id=backup.site_id,
        backup=backup.code,
        store=backup.store,
        manifest_sha256=backup.manifest_sha256,
        deep=deep,
    )


def database_references(site: Site) -> tuple[DatabaseRef, ...]:
    """Name the server databases of a site. SQLite files are part of its files and found by the agent."""
    return tuple(DatabaseRef(engine=row.engine, name=row.name) for row in databases_of(site))

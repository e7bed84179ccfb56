"""Actions on backups: make, check, bring back, remove."""

from dataclasses import dataclass
from typing import ClassVar

from agent.declarations.names import (
    BackupCode,
    DatabaseEngine,
    DatabaseName,
    DomainName,
    Sha256OrNothing,
    SiteId,
    StoreName,
)
from agent.declarations.schema import Declaration, Lock


@dataclass(frozen=True)
class DatabaseRef:
    """A database by engine and name."""

    engine: DatabaseEngine
    name: DatabaseName


@dataclass(frozen=True)
class CreateBackup(Declaration):
    """Write a site's files and databases to a store. SQLite files are found without being named."""

    action: ClassVar[str] = "backup.create_backup"
    lock: ClassVar[Lock] = Lock.EXCLUSIVE
    safe_to_kill: ClassVar[bool] = True
    default_deadline_seconds: ClassVar[int] = 7200

    site_id: SiteId
    domain: DomainName
    backup: BackupCode
    store: StoreName
    databases: tuple[DatabaseRef, ...]


@dataclass(frozen=True)
class VerifyBackup(Declaration):
    """Read a backup back and compare it with its manifest; deep also restores it into scratch space."""

    action: ClassVar[str] = "backup.verify_backup"
    lock: ClassVar[Lock] = Lock.SHARED
    safe_to_kill: ClassVar[bool] = True
    default_deadline_seconds: ClassVar[int] = 7200

    site_id: SiteId
    backup: BackupCode
    store: StoreName
    manifest_sha256: Sha256OrNothing
    deep: bool = False


@dataclass(frozen=True)
class RestoreBackup(Declaration):
    """Bring a site back from a backup. `databases` are the only MariaDB databases it may load into."""

    action: ClassVar[str] = "backup.restore_backup"
    lock: ClassVar[Lock] = Lock.MUTATING
    default_deadline_seconds: ClassVar[int] = 10800

    site_id: SiteId
    domain: DomainName
    backup: BackupCode
    store: StoreName
    manifest_sha256: Sha256OrNothing
    databases: tuple[DatabaseRef, ...]


@dataclass(frozen=True)
class DeleteBackup(Declaration):
    """Remove a backup, or what an attempt that did not end left of it. Safe to repeat."""

    action: ClassVar[str] = "backup.delete_backup"
    lock: ClassVar[Lock] = Lock.EXCLUSIVE
    default_deadline_seconds: ClassVar[int] = 1800

    site_id: SiteId
    backup: BackupCode
    store: StoreName

"""backup.restore_backup: unpack beside the site, check, swap at once; or leave the site as it was."""

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from agent.archive import files, manifest
from agent.archive.check import compression_of, place, require_checksums
from agent.archive.layout import artifact
from agent.archive.manifest import DatabasePart, Manifest
from agent.archive.streams import opened
from agent.databases import mariadb
from agent.declarations.backup import RestoreBackup
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.owner import Owner, open_to_web, owner_of
from agent.paths import exchange, home_of, remove_tree
from agent.web.drivers import web_driver

# With the dash at its end no site's prefix is the beginning of another's.
STAGING = ".staging-{site}-"


@dataclass(frozen=True)
class Restoring:
    """What one run works with."""

    arguments: RestoreBackup
    operation: OperationView
    written: Manifest
    folder: Path
    home: Path
    staging: Path
    owner: Owner | None


def run(arguments: RestoreBackup, operation: OperationView) -> dict[str, object]:
    """Restore files and databases and give what was restored and the status of the first page."""
    restoring = _prepare(arguments, operation)
    try:
        _stage(restoring)
        operation.checkpoint("staged")
        operation.progress(60, "swapping")
        rows, status = _swap_and_load(restoring)
    finally:
        # Before the swap this is the copy that was not wanted, after it the site of before.
        _remove(restoring.staging, restoring.operation)
    parts = [replace(part, tables=rows[part.name]) for part in restoring.written.databases]
    return {
        "backup": arguments.backup,
        "files": restoring.written.files.entries,
        "databases": manifest.told(parts),
        "status": status,
    }


def _prepare(arguments: RestoreBackup, operation: OperationView) -> Restoring:
    policy = operation.policy
    made = artifact(policy, arguments.store, arguments.site_id, arguments.backup)
    written = manifest.read(made.folder, arguments.manifest_sha256)
    if (written.site_id, written.backup) != (arguments.site_id, arguments.backup):
        raise ActionFailed("the manifest belongs to another backup; nothing was changed")
    operation.progress(0, "checking the artifact")
    require_checksums(written, made.folder)
    _require_known_databases(written, arguments)
    # A name of its own: what an earlier run left may not be removable.
    name = f"{STAGING.format(site=arguments.site_id)}{arguments.backup}-{secrets.token_hex(4)}"
    staging = policy.sites_root / name
    home, owner = home_of(policy, arguments.site_id), owner_of(policy, arguments.site_id)
    return Restoring(arguments, operation, written, made.folder, home, staging, owner)


def _require_known_databases(written: Manifest, arguments: RestoreBackup) -> None:
    known = {reference.name for reference in arguments.databases if reference.engine == "mariadb"}
    foreign = [part.name for part in written.databases if part.engine == "mariadb" and part.name not in known]
    if foreign:
        raise ActionFailed(f"the backup holds databases that are not this site's: {', '.join(foreign)}")


def _stage(restoring: Restoring) -> None:
    for abandoned in restoring.staging.parent.glob(STAGING.format(site=restoring.arguments.site_id) + "*"):
        _remove(abandoned, restoring.operation)
    restoring.staging.mkdir(mode=0o700)
    if restoring.owner is not None:
        os.chown(restoring.staging, restoring.owner.uid, restoring.owner.gid)
    restoring.operation.progress(10, "unpacking the files")
    compression = compression_of(restoring.written)
    # Databases first: the archive then gives their folders back the modes and times that they had.
    for part in restoring.written.databases:
        if part.engine == "sqlite":
            with opened(restoring.folder / part.file, compression) as stream:
                place(stream.fileno(), restoring.staging, part.path, part.mode, restoring.owner)
    with opened(restoring.folder / restoring.written.files.name, compression) as stream:
        files.unpack(stream, restoring.staging, owner=restoring.owner)
    files.require_contents(restoring.staging)
    open_to_web(restoring.staging, restoring.owner)


def _swap_and_load(restoring: Restoring) -> tuple[dict[str, dict[str, int]], int]:
    """Put the staged home in place, load the server databases, ask for the first page; or go back."""
    had_home = restoring.home.exists()
    if not had_home:
        restoring.home.mkdir(mode=0o700)
    exchange(restoring.staging, restoring.home)
    try:
        rows = {part.name: _loaded(part, restoring) for part in restoring.written.databases}
        return rows, web_driver(restoring.operation.policy).probe(restoring.arguments.domain)
    except BaseException:
        exchange(restoring.staging, restoring.home)
        if not had_home:
            restoring.home.rmdir()
        raise


def _remove(staging: Path, operation: OperationView) -> None:
    try:
        remove_tree(staging)
    except ActionFailed as error:
        # What was asked for is decided already; the next restore of this site tries again to remove it.
        operation.event(f"{staging.name} could not be removed: {error}")


def _loaded(part: DatabasePart, restoring: Restoring) -> dict[str, int]:
    if part.engine == "sqlite":
        return dict(part.tables)
    restoring.operation.progress(70, f"loading {part.name}")
    path, tables = restoring.folder / part.file, sorted(part.tables)
    policy = restoring.operation.policy
    return mariadb.restore(policy, part.name, path, compression_of(restoring.written), tables)

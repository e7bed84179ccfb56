"""backup.create_backup: a site's files and databases in one artifact, all or nothing."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent.archive import files, manifest
from agent.archive.layout import DATABASES, artifact, draft
from agent.archive.manifest import DatabasePart, FilesPart, Manifest
from agent.archive.streams import Compression, best_compression, store_stream
from agent.archive.survey import survey
from agent.databases import mariadb, sqlite
from agent.declarations.backup import CreateBackup
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.owner import Owner, owner_of
from agent.paths import home_of, open_regular, scratch, unshown
from agent.runner import call_as
from agent.runner import run as run_tool

SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass
class Making:
    """What one run works with and has made so far."""

    arguments: CreateBackup
    operation: OperationView
    folder: Path
    scratch: Path
    home: Path
    owner: Owner | None
    compression: Compression = field(default_factory=best_compression)
    databases: list[DatabasePart] = field(default_factory=list)

    def dump_name(self, engine: str, name: str) -> str:
        """Give a file name for the next dump: its number, the engine, and the name as far as it is plain."""
        plain = "".join(letter if letter in SAFE else "_" for letter in name.rpartition("/")[2])[:80]
        ending = "sqlite3" if engine == "sqlite" else "sql"
        number = len(self.databases) + 1
        return f"{DATABASES}/{number}-{engine}-{plain}.{ending}{self.compression.suffix}"


def run(arguments: CreateBackup, operation: OperationView) -> dict[str, object]:
    """Make the artifact and say what is in it."""
    policy = operation.policy
    home, owner = home_of(policy, arguments.site_id), owner_of(policy, arguments.site_id)
    if not home.is_dir():
        raise ActionFailed(f"site {arguments.site_id} has no home on this server; provision it first")
    made = artifact(policy, arguments.store, arguments.site_id, arguments.backup)
    with scratch(policy, arguments.site_id, owner) as space, draft(made) as folder:
        making = Making(arguments, operation, folder, space, home, owner)
        written, digest = _make(making)
        operation.checkpoint("finalizing")
    return _told(written, made.folder, digest)


def _make(making: Making) -> tuple[Manifest, str]:
    operation = making.operation
    operation.progress(0, "looking through the files")
    found = call_as(making.owner, survey, str(making.home))
    copied = [path for path in found["databases"] if _copy_sqlite(making, path)]
    for reference in making.arguments.databases:
        _dump_mariadb(making, reference.name)
    operation.progress(30, "archiving the files")
    archived = files.archive(
        making.home,
        [unshown(name) for path in copied for name in (path, *found["companions"][path])],
        making.folder / f"files.tar{making.compression.suffix}",
        making.compression,
        owner=making.owner,
        index=making.scratch / "index",
    )
    operation.checkpoint("archived")
    operation.progress(90, "writing the manifest")
    written = _manifest(making, archived, set(found["unreadable"]))
    return written, manifest.write(written, making.folder)


def _copy_sqlite(making: Making, path: str) -> bool:
    """Copy one SQLite database; give False for a file that only looks like one: it stays with the files."""
    copy = making.scratch / f"copy-{len(making.databases)}"
    told = call_as(making.owner, sqlite.copy_database, str(making.home), path, str(copy))
    if "damaged" in told:
        copy.unlink(missing_ok=True)
        making.operation.event(f"{path} looks like an SQLite database but is damaged: kept as a file")
        return False
    name = making.dump_name("sqlite", path)
    with open_regular(copy, making.owner) as stream:
        stored = store_stream(stream, making.folder / name, making.compression)
    copy.unlink()
    making.databases.append(
        DatabasePart("sqlite", path, path, name, stored.size, stored.sha256, told["tables"], told["mode"])
    )
    making.operation.checkpoint(f"dumped {path}")
    return True


def _dump_mariadb(making: Making, name: str) -> None:
    policy = making.operation.policy
    file = making.dump_name("mariadb", name)
    rows = mariadb.count_rows(policy, name)
    stored = mariadb.dump(policy, name, making.folder / file, making.compression)
    tables = mariadb.tables_of_dump(making.folder / file, making.compression)
    if tables != sorted(rows):
        raise ActionFailed(f"the tables of {name} changed while it was dumped; try again")
    making.databases.append(DatabasePart("mariadb", name, "", file, stored.size, stored.sha256, rows, 0))
    making.operation.checkpoint(f"dumped {name}")


def _manifest(making: Making, archived: files.Archived, unreadable: set[str]) -> Manifest:
    skipped = tuple(sorted(unreadable | set(archived.unreadable)))
    stored = archived.stored
    return Manifest(
        version=manifest.VERSION,
        backup=making.arguments.backup,
        site_id=making.arguments.site_id,
        domain=making.arguments.domain,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        integrity="PARTIAL" if skipped else "COMPLETE",
        compression=making.compression.name,
        tools=_tools(making.compression),
        files=FilesPart(stored.name, stored.size, stored.sha256, archived.entries),
        databases=tuple(making.databases),
        skipped=skipped,
        changed=archived.changed,
        vanished=archived.vanished,
    )


def _tools(compression: Compression) -> dict[str, str]:
    names = ("tar", compression.name)
    return {name: run_tool([name, "--version"]).stdout.decode().splitlines()[0] for name in names}


def _told(written: Manifest, folder: Path, digest: str) -> dict[str, object]:
    sizes = [written.files.size, *(part.size for part in written.databases)]
    return {
        "backup": written.backup,
        "path": str(folder),
        "integrity": written.integrity,
        "size_bytes": sum(sizes),
        "files": written.files.entries,
        "skipped": list(written.skipped[:200]),
        "changed": list(written.changed[:200]),
        "databases": manifest.told(written.databases),
        "manifest_sha256": digest,
    }

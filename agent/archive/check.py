"""Reading an artifact back: checksums, the archive's list, the databases' contents."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.archive import files
from agent.archive.manifest import DatabasePart, Manifest
from agent.archive.streams import BY_NAME, Compression, opened, sha256_of
from agent.databases import mariadb, sqlite
from agent.exceptions import ActionFailed
from agent.operation import OperationView
from agent.owner import Owner
from agent.runner import call_as


def require_checksums(written: Manifest, folder: Path) -> None:
    """Raise ActionFailed naming the first file that is not what was written."""
    for name, digest in [(written.files.name, written.files.sha256), *_digests(written)]:
        if sha256_of(folder / name) != digest:
            raise ActionFailed(f"{name} is damaged: its checksum differs from the manifest")


def compression_of(written: Manifest) -> Compression:
    """Give the compression that the manifest names. Raises ActionFailed for an unknown one."""
    if written.compression not in BY_NAME:
        raise ActionFailed(
            f"the manifest names the compression {written.compression!r}, which is not known here"
        )
    return BY_NAME[written.compression]


def problems_of(
    written: Manifest, folder: Path, space: Path, owner: Owner | None, operation: OperationView
) -> list[str]:
    """Give what is wrong with an artifact, in words; an empty list for a good one. `space` is the owner's."""
    place_of = _Reading(written, folder, space, owner)
    checks: list[Callable[[], None]] = [
        partial(require_checksums, written, folder),
        partial(_check_files, place_of),
    ]
    for part in written.databases:
        checks.append(partial(_check_sqlite if part.engine == "sqlite" else _check_dump, part, place_of))
    found: list[str] = []
    for number, check in enumerate(checks):
        operation.progress(100 * number // len(checks), "reading back")
        try:
            check()
        except ActionFailed as error:
            found.append(str(error))
        operation.checkpoint(f"checked {number + 1} of {len(checks)}")
    return found


def _digests(written: Manifest) -> list[tuple[str, str]]:
    return [(part.file, part.sha256) for part in written.databases]


@dataclass(frozen=True)
class _Reading:
    """The artifact that is read, and the scratch space of the owner."""

    written: Manifest
    folder: Path
    space: Path
    owner: Owner | None

    @property
    def compression(self) -> Compression:
        return compression_of(self.written)


def _check_files(reading: _Reading) -> None:
    part = reading.written.files
    with opened(reading.folder / part.name, reading.compression) as stream:
        entries = files.count_members(stream)
    if entries != part.entries:
        raise ActionFailed(f"{part.name} lists {entries} members; the manifest says {part.entries}")


def _check_dump(part: DatabasePart, reading: _Reading) -> None:
    tables = mariadb.tables_of_dump(reading.folder / part.file, reading.compression)
    if tables != sorted(part.tables):
        raise ActionFailed(f"{part.file} does not hold the tables that the manifest names")


def _check_sqlite(part: DatabasePart, reading: _Reading) -> None:
    copy = reading.space / "check.sqlite3"
    try:
        with opened(reading.folder / part.file, reading.compression) as stream:
            place(stream.fileno(), copy.parent, copy.name, 0o600, reading.owner)
        told = call_as(reading.owner, sqlite.check_copy, str(copy))
    finally:
        copy.unlink(missing_ok=True)
    if told["problems"]:
        raise ActionFailed(f"{part.file}: {'; '.join(told['problems'])}")
    if told["tables"] != dict(part.tables):
        raise ActionFailed(f"{part.file}: row counts differ from the manifest")


def place(descriptor: int, root: Path, below: str, mode: int, owner: Owner | None) -> None:
    """Write a stream below a folder, as the owner. `below` is an escaped path."""
    call_as(owner, sqlite.put_in_place, str(root), below, mode, descriptor)

"""The files of a site in one tar archive: written as the owner reads them, unpacked as the owner may write."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent.archive.streams import Compression, Stored, store_output
from agent.archive.survey import COMPANIONS
from agent.exceptions import ActionFailed
from agent.owner import Owner
from agent.runner import Argument, Tool

# What GNU tar says of a single file. Code 1 means that some file changed while it was read.
_CHANGED = re.compile(r"^tar: (?P<path>.*): file changed as we read it$")
_VANISHED = re.compile(r"^tar: (?P<path>.*): (?:Warning: )?(?:File removed before we read it|Cannot stat: No such file.*)$")
_UNREADABLE = re.compile(r"^tar: (?P<path>.*): (?:Warning: )?(?:Cannot \w+|Read error).*$")

KEEPING = ("--format=posix", "--acls", "--xattrs", "--sparse", "--numeric-owner", "--one-file-system")


@dataclass(frozen=True)
class Archived:
    """The archive, how many members it has, and paths that were not read as they should have been."""

    stored: Stored
    entries: int
    changed: tuple[str, ...]
    vanished: tuple[str, ...]
    unreadable: tuple[str, ...]


def archive(
    home: Path,
    databases: Sequence[bytes],
    target: Path,
    compression: Compression,
    *,
    owner: Owner | None,
    index: Path,
) -> Archived:
    """Write all of a home but its databases to one archive. `index` is a file that the owner may write.

    A file that changes or vanishes meanwhile is named and is no error: a busy log must not keep a site without
    a backup. Raises ActionFailed where tar itself fails.
    """
    command: list[Argument] = ["tar", "--create", *KEEPING, "--quoting-style=escape", "--ignore-failed-read"]
    command += ["--verbose", f"--index-file={index}", "--anchored", "--no-wildcards"]
    for path in databases:
        command += [b"--exclude=./" + path + companion for companion in (b"", *COMPANIONS)]
    command += ["--file=-", "--directory", str(home), "."]
    stored, finished = store_output(command, target, compression, owner=owner)
    finished.require(0, 1)
    lines = finished.stderr.splitlines()
    vanished = _named(_VANISHED, lines)
    return Archived(
        stored,
        _count_lines(index),
        _named(_CHANGED, lines),
        vanished,
        tuple(path for path in _named(_UNREADABLE, lines) if path not in vanished),
    )


def _named(pattern: re.Pattern[str], lines: Sequence[str]) -> tuple[str, ...]:
    found = (pattern.match(line) for line in lines)
    return tuple(sorted({match["path"].removeprefix("./") for match in found if match}))


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def count_members(stream: IO[bytes]) -> int:
    """List an archive to its end and give the number of members. Raises ActionFailed where it is damaged."""
    lister = Tool(["tar", "--list", "--quoting-style=escape", "--file=-"], stdin=stream)
    entries = sum(1 for _ in lister.output)
    lister.finish().require()
    return entries


def unpack(stream: IO[bytes], target: Path, *, owner: Owner | None) -> None:
    """Unpack an archive into a folder, as the owner of that folder. Raises ActionFailed.

    Names that lead out of the folder are refused by tar; what one could reach through a planted link is no
    more than what the owner may write anyway.
    """
    command: list[Argument] = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--acls", "--xattrs"]
    command += ["--delay-directory-restore", "--no-same-owner", "--file=-", "--directory", str(target)]
    Tool(command, owner=owner, stdin=stream).finish().require()


def require_contents(target: Path) -> None:
    """Raise ActionFailed where an unpacked home is empty: a restore never puts nothing in a site's place."""
    if not any(target.iterdir()):
        raise ActionFailed("the archive holds no files")

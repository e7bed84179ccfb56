"""A site's files in one tar archive: written as the owner reads them, unpacked as the owner may write."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent.archive.streams import Compression, Stored, store_output
from agent.exceptions import ActionFailed
from agent.owner import Owner
from agent.paths import open_regular, shown
from agent.runner import Argument, Tool

# What GNU tar says of a single file, whose own colons are escaped. Code 1 means that some file changed while
# it was read.
_CHANGED = re.compile(r"^tar: (?P<path>.*?): (?:file changed as we read it|File shrank by .*)$")
_VANISHED = re.compile(
    r"^tar: (?P<path>.*?): (?:Warning: )?(?:File removed before we read it|Cannot \w+: No such file.*)$"
)
_UNREADABLE = re.compile(r"^tar: (?P<path>.*?): (?:Warning: )?(?:Cannot \w+|Read error).*$")

# How tar escapes a path in what it says: \n, \: and octal numbers.
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

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
    excluded: Sequence[bytes],
    target: Path,
    compression: Compression,
    *,
    owner: Owner | None,
    index: Path,
) -> Archived:
    """Write all of a home but what is excluded to one archive. `index` is a file that the owner may write.

    A file that changes or vanishes meanwhile is named and is no error: a busy log must not keep a site
    without a backup. Raises ActionFailed where tar itself fails.
    """
    command: list[Argument] = ["tar", "--create", *KEEPING, "--quoting-style=escape", "--ignore-failed-read"]
    command += ["--verbose", f"--index-file={index}", "--anchored", "--no-wildcards"]
    command += [b"--exclude=./" + path for path in excluded]
    command += ["--file=-", "--directory", str(home), "."]
    stored, finished = store_output(command, target, compression, owner=owner)
    finished.require(0, 1)
    if finished.is_stderr_cut:
        raise ActionFailed("tar could not read so many files that their names do not fit into a manifest")
    lines = finished.stderr.split("\n")
    vanished = _named(_VANISHED, lines)
    return Archived(
        stored,
        _count_lines(index, owner),
        _named(_CHANGED, lines),
        vanished,
        tuple(path for path in _named(_UNREADABLE, lines) if path not in vanished),
    )


def _named(pattern: re.Pattern[str], lines: Sequence[str]) -> tuple[str, ...]:
    found = (pattern.match(line) for line in lines)
    return tuple(sorted({_as_shown(match["path"]) for match in found if match}))


def _as_shown(said: str) -> str:
    path = _ESCAPE.sub(lambda match: _unescaped(match[1]), said.encode())
    return shown(path.removeprefix(b"./"))


def _unescaped(escape: bytes) -> bytes:
    return bytes([int(escape, 8)]) if len(escape) == 3 else _LETTERS.get(escape, escape)


def _count_lines(path: Path, owner: Owner | None) -> int:
    with open_regular(path, owner) as file:
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
    command: list[Argument] = [
        "tar",
        "--extract",
        "--preserve-permissions",
        "--numeric-owner",
        "--acls",
        "--xattrs",
    ]
    command += ["--delay-directory-restore", "--no-same-owner", "--file=-", "--directory", str(target)]
    Tool(command, owner=owner, stdin=stream).finish().require()


def require_contents(target: Path) -> None:
    """Raise ActionFailed where an unpacked home is empty: a restore never puts nothing in a site's place."""
    if not any(target.iterdir()):
        raise ActionFailed("the archive holds no files")

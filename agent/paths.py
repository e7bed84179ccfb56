"""Paths in territory that a tenant controls: bytes, never followed through a link, escaped where shown."""

import ctypes
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agent.exceptions import ActionFailed
from agent.owner import Owner
from agent.policy import Policy
from agent.runner import run

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A site's own process may write into a folder while it is being removed.
REMOVALS = 5
_libc = ctypes.CDLL(None, use_errno=True)


def shown(path: bytes) -> str:
    """Give a path as printable text that stands for exactly one path: what is not plain is escaped."""
    text = path.decode("utf-8", "surrogateescape")
    return "".join(character if _is_plain(character) else _escaped(character) for character in text)


def unshown(text: str) -> bytes:
    """Give the path that `shown` made this text of."""
    parts = text.split("\\\\")
    return b"\\".join(_unescaped(part) for part in parts)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character != "\\"


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _unescaped(part: str) -> bytes:
    head, *rest = part.split("\\x")
    made = head.encode()
    for piece in rest:
        made += bytes([int(piece[:2], 16)]) + piece[2:].encode()
    return made


def home_of(policy: Policy, site_id: int) -> Path:
    """Give the folder of all that belongs to a site. The folder above it is root's."""
    return policy.sites_root / str(site_id)


def open_regular(path: str | bytes | Path, owner: Owner | None = None) -> IO[bytes]:
    """Open a regular file for reading without following a link at its end. Raises ActionFailed.

    With an owner the file must be theirs and have no second name: nobody has put another's file in its place.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ActionFailed(f"cannot open {shown(os.fsencode(path))}: {error.strerror}") from error
    status = os.fstat(descriptor)
    foreign = owner is not None and (status.st_uid != owner.uid or status.st_nlink != 1)
    if not stat.S_ISREG(status.st_mode) or foreign:
        os.close(descriptor)
        raise ActionFailed(f"{shown(os.fsencode(path))} is not a plain file of its owner")
    return os.fdopen(descriptor, "rb")


def open_below(root: str | Path, relative: bytes, flags: int, mode: int = 0o600) -> int:
    """Open a path below a folder, part by part, following no link. Raises OSError and ValueError."""
    *folders, name = _components(relative)
    descriptor = os.open(root, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def make_folders_below(root: str | Path, relative: bytes) -> None:
    """Make the folders above a path below a folder, following no link. Raises OSError and ValueError."""
    *folders, _ = _components(relative)
    descriptor = os.open(root, _FOLDER)
    try:
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700, dir_fd=descriptor)
            inner = os.open(folder, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    finally:
        os.close(descriptor)


def _components(relative: bytes) -> list[bytes]:
    parts = relative.split(b"/")
    if not relative or any(part in (b"", b".", b"..") for part in parts) or b"\0" in relative:
        raise ValueError(f"not a path below a folder: {shown(relative)}")
    return parts


def exchange(first: Path, second: Path) -> None:
    """Swap two folders at once, so that nobody ever sees a mixture or nothing. Raises OSError.

    Where the file system cannot swap, one is moved aside for a moment, and back if the second move fails.
    """
    made = _libc.renameat2(
        _AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), ctypes.c_uint(_RENAME_EXCHANGE)
    )
    if made == 0:
        return
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(code, os.strerror(code), str(first))
    aside = first.with_name(f"{first.name}.aside")
    os.rename(first, aside)
    try:
        os.rename(second, first)
    except OSError:
        os.rename(aside, first)
        raise
    os.rename(aside, second)


def remove_tree(path: Path) -> None:
    """Remove a folder with all below it, however deep, without following links. Absent is fine.

    Raises ActionFailed where something is left, for instance because somebody goes on writing into it.
    """
    if not path.is_symlink() and not path.exists():
        return
    if os.geteuid() != 0:
        # Who is not root has to open their own read-only folders first.
        run(["chmod", "--recursive", "u+rwX", "--", str(path)])
    for attempt in range(REMOVALS):
        done = run(["rm", "--recursive", "--force", "--one-file-system", "--", str(path)])
        if done.code == 0:
            return
        time.sleep(attempt / 10)
    done.require()


def make_public_folder(path: Path) -> None:
    """Make a folder that everybody may enter, whatever the umask. One that exists keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(0o755)


def sync_folder(path: Path) -> None:
    """Have the folder's own entries on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def scratch(policy: Policy, site_id: int, owner: Owner | None) -> Iterator[Path]:
    """Give a folder that is the owner's alone, for the time of the block.

    It stands beside the sites: the agent's own folders are closed to owners. What killed runs of the same
    site left goes first: a folder in use is locked by the processes that use it.
    """
    base = policy.sites_root / ".scratch"
    base.mkdir(exist_ok=True)
    # Whatever the umask: owners must be able to pass through to their own folder below, and see no other.
    base.chmod(0o711)
    with locked_folder(base):
        _remove_abandoned(base, f"{site_id}-")
        made = Path(tempfile.mkdtemp(dir=base, prefix=f"{site_id}-"))
        held = os.open(made, _FOLDER)
        fcntl.flock(held, fcntl.LOCK_EX)
    os.set_inheritable(held, True)
    try:
        if owner is not None:
            os.chown(made, owner.uid, owner.gid)
        yield made
    finally:
        remove_tree(made)
        os.close(held)


def _remove_abandoned(base: Path, prefix: str) -> None:
    for path in base.iterdir():
        if path.name.startswith(prefix):
            with suppress(BlockingIOError, FileNotFoundError), locked_folder(path, fcntl.LOCK_NB):
                remove_tree(path)


@contextmanager
def locked_folder(folder: Path, how: int = 0) -> Iterator[None]:
    """Keep others who ask so out of a folder, for the time of the block. LOCK_NB raises BlockingIOError."""
    descriptor = os.open(folder, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)

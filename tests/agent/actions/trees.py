"""A site's files as awkward as customers make them, and a description of a tree that leaves nothing out."""

import os
import random
import socket
import stat
import subprocess
from hashlib import sha256
from pathlib import Path

Description = dict[bytes, tuple[object, ...]]
NAMES = [
    b"new\nline",
    b"not-utf8-\xff\xfe",
    b"-rf",
    b"--checkpoint-action=exec=false",
    b"n" * 255,
    b"back\\slash \\n \\x41",
    b"col:on 'quote\" * ? [a] ",
    "u\u0308 and \u00fc".encode(),
    b"a.sqlite3",
]


def awkward(home: Path) -> None:
    """Fill a home's document root."""
    root = os.fsencode(home / "htdocs")
    for number, name in enumerate(NAMES):
        _write(os.path.join(root, name), b"%d " % number + name)
    _kinds(home / "htdocs")
    _modes(home / "htdocs")
    _links(home / "htdocs")
    deep = os.path.join(root, *([b"d" * 100] * 30))
    os.makedirs(deep)
    _write(os.path.join(deep, b"bottom"), b"deep")
    _age(root)


def with_attributes(home: Path, uid: int) -> bool:
    """Add extended attributes and access lists; give False where the file system has none."""
    path = home / "htdocs" / "attributes"
    path.mkdir()
    (path / "file").write_text("listed")
    try:
        os.setxattr(path / "file", "user.note", b"\x00kept\xff")
    except OSError:
        return False
    done = [
        subprocess.run(["setfacl", *rule, str(where)], check=False, capture_output=True).returncode
        for rule, where in (
            (["-m", f"u:{uid + 7}:r"], path / "file"),
            (["-d", "-m", f"u:{uid + 7}:rwx"], path),
        )
    ]
    return done == [0, 0]


def described(home: Path) -> Description:
    """Tell of every path what could differ after a restore. Sockets are left out: they are no content."""
    root = os.fsencode(home)
    found: Description = {}
    inodes: dict[tuple[int, int], bytes] = {}
    for folder, names, files in os.walk(root):
        for name in [b".", *names, *files] if folder == root else [*names, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if not stat.S_ISSOCK(status.st_mode):
                below = os.path.relpath(path, root)
                found[below] = (
                    *_told(path, status),
                    inodes.setdefault((status.st_dev, status.st_ino), below),
                )
    return found


def differences(before: Description, after: Description) -> list[bytes]:
    """Name the paths that are not the same in both."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _told(path: bytes, status: os.stat_result) -> tuple[object, ...]:
    content: object = None
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            content = sha256(file.read()).hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    links = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    owner = (status.st_uid, status.st_gid)
    attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in _attribute_names(path)}
    is_sparse = status.st_size > 1 << 20 and status.st_blocks * 512 < status.st_size // 2
    time = status.st_mtime_ns
    return (stat.filemode(status.st_mode), owner, time, links, content, attributes, is_sparse)


def _attribute_names(path: bytes) -> list[str]:
    try:
        return sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:
        return []


def _write(path: bytes | Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _kinds(root: Path) -> None:
    os.mkfifo(root / "fifo")
    descriptor = os.open(root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        # A socket's name must be short; the way to it by a descriptor is.
        listener.bind(f"/proc/self/fd/{descriptor}/socket")
    os.close(descriptor)
    (root / "empty-folder").mkdir()
    _write(root / "empty-file", b"")
    _write(root / "random", random.Random(7).randbytes(300_000))
    with (root / "sparse").open("wb") as file:
        file.seek(8 << 20)
        file.write(b"island")
        file.truncate(32 << 20)


def _modes(root: Path) -> None:
    for name, mode in (("setgid", 0o2770), ("read-only", 0o555), ("sticky", 0o1777), ("closed", 0o500)):
        (root / name).mkdir()
        _write(root / name / "inside", name.encode())
        (root / name).chmod(mode)
    for name, mode in (("only-read", 0o400), ("program", 0o755), ("setuid", 0o4755), ("open", 0o666)):
        _write(root / name, name.encode())
        (root / name).chmod(mode)


def _links(root: Path) -> None:
    _write(root / "first-name", b"one file")
    os.link(root / "first-name", root / "empty-folder" / "second-name")
    os.symlink("first-name", root / "link")
    os.symlink("/etc/hostname", root / "absolute-link")
    os.symlink("loop", root / "loop")
    os.symlink(b"gone \xff\n", os.fsencode(root / "dangling"))
    os.symlink("../..", root / "upwards")


def _age(root: bytes) -> None:
    """Give every path a time of its own, to the nanosecond."""
    for number, (folder, names, files) in enumerate(os.walk(root, topdown=False)):
        for name in (*names, *files, b""):
            path = os.path.join(folder, name) if name else folder
            moment = 1_000_000_000_123_456_789 + number * 86_400_000_000_007 + len(name)
            os.utime(path, ns=(moment, moment), follow_symlinks=False)
    os.utime(os.path.join(root, b"empty-file"), ns=(0, 0))

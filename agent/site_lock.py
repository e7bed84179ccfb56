"""The lock of a site, kept by the kernel: it ends with the last process that inherited it, not before.

Two files a site. Exclusive work locks the first; mutating work locks both; a shared reader, who only
wants a still site, shares the second. So a reader stands beside exclusive work, not beside mutating.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from agent.declarations.schema import Lock
from agent.exceptions import SiteBusy

_WORK, _STILL = "{}.lock", "{}.still.lock"
_STEPS = {
    Lock.NONE: (),
    Lock.SHARED: ((_STILL, fcntl.LOCK_SH),),
    Lock.EXCLUSIVE: ((_WORK, fcntl.LOCK_EX),),
    Lock.MUTATING: ((_WORK, fcntl.LOCK_EX), (_STILL, fcntl.LOCK_EX)),
}


@dataclass(frozen=True)
class SiteLock:
    """A lock that is held: by the open descriptors, here and in every process that inherits them."""

    site_id: int
    lock: Lock
    descriptors: tuple[int, ...]


def take_site_lock(lock_dir: Path, site_id: int, lock: Lock) -> SiteLock:
    """Take the site's lock without waiting; raises SiteBusy. Only the end of the processes gives it back."""
    descriptors: list[int] = []
    try:
        for name, mode in _STEPS[lock]:
            descriptors.append(_open(lock_dir / name.format(site_id)))
            fcntl.flock(descriptors[-1], mode | fcntl.LOCK_NB)
    except BlockingIOError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise SiteBusy(f"another operation holds site {site_id}") from None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    return SiteLock(site_id, lock, tuple(descriptors))


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

"""Whether a process that was written down still runs: a pid alone may belong to another by now."""

from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessIdentity:
    """A pid and when it started (boot id and clock ticks since boot); no two processes share both."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Give the identity of a running process; None if there is none or only its zombie."""
    status = _status(pid)
    if status is None or status[0] in "ZX":
        return None
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ProcessIdentity(pid, f"{boot}:{status[19]}")


def is_alive(process: ProcessIdentity) -> bool:
    """Say whether exactly this process still runs."""
    return identify(process.pid) == process


def is_group_alive(group: int) -> bool:
    """Say whether any process of the group runs; zombies do not count."""
    for entry in _PROC.iterdir():
        status = _status(int(entry.name)) if entry.name.isdigit() else None
        if status and status[0] not in "ZX" and int(status[2]) == group:
            return True
    return False


def _status(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name in parentheses may hold anything; what counts stands after the last one.
    return text.rpartition(")")[2].split() or None

"""The processes of a worker, found by a mark in the environment that every child inherits (Linux /proc)."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "CHP_BENCH_MARK"
_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def marked(mark: str) -> list[int]:
    """Give the living processes whose environment carries this mark."""
    wanted = f"{VARIABLE}={mark}".encode()
    return [pid for pid in _pids() if wanted in _environment(pid).split(b"\0")]


def children(parent: int) -> list[int]:
    """Give the living children of a process."""
    return [pid for pid in _pids() if (fields := _stat(pid)) and int(fields[1]) == parent]


def cpu_seconds(pids: Iterable[int]) -> float:
    """Give the processor time of these processes, with that of their ended children, in seconds."""
    return sum(sum(int(ticks) for ticks in _stat(pid)[11:15]) for pid in pids) / _TICKS


def memory_mib(pids: Iterable[int]) -> float:
    """Give the memory of these processes (proportional set size), in MiB."""
    return sum(_proportional_kib(pid) for pid in pids) / 1024


def kill_marked(mark: str, seconds: float = 10.0) -> None:
    """Kill every process with this mark, and those that they start meanwhile, until none is left."""
    ends = time.monotonic() + seconds
    while (pids := marked(mark)) and time.monotonic() < ends:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except _GONE:
        return b""


def _stat(pid: int) -> list[str]:
    """Give the fields of /proc/PID/stat from the state on; none where the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except _GONE:
        return []
    return text.rpartition(") ")[2].split()


def _proportional_kib(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except _GONE:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))

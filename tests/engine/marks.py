"""Marks: what the runs of jobs write down for themselves, outside of the database, as they begin and end.

One line each: `JOB-000241 2 4711 start 81.25`: the job's code, the claim's epoch, the process, the phase,
and, where times are wanted, the machine's monotonic clock in seconds.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

LINE = re.compile(r"(JOB-\d+) (\d+) (\d+) (start|end)(?: (\d+\.\d+))?")
Phase = Literal["start", "end"]


@dataclass(frozen=True)
class Run:
    """One run of one claim. `began` and `ended` are monotonic seconds, None where they were not written."""

    code: str
    epoch: int
    pid: int
    began: float | None = None
    ended: float | None = None
    is_whole: bool = False


def write(path: str, code: str, epoch: int, phase: Phase, *, timed: bool = False) -> None:
    """Append a mark by one write, so that lines of many processes never mix."""
    when = f" {time.monotonic():.6f}" if timed else ""
    line = f"{code} {epoch} {os.getpid()} {phase}{when}\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode("ascii"))
    finally:
        os.close(descriptor)


def runs(path: Path) -> Iterator[Run]:
    """Give every run in the file. Raises ValueError at a line that is no mark or an end without a start."""
    open_runs: dict[tuple[str, int, int], list[Run]] = {}
    with path.open(encoding="ascii") as lines:
        for line in lines:
            run, phase = _parsed(line)
            begun = open_runs.setdefault((run.code, run.epoch, run.pid), [])
            if phase == "start":
                begun.append(run)
                continue
            if not begun:
                raise ValueError(f"an end without its start: {line!r}")
            yield replace(begun.pop(), ended=run.began, is_whole=True)
    for begun in open_runs.values():
        yield from begun


def _parsed(line: str) -> tuple[Run, str]:
    match = LINE.fullmatch(line.rstrip("\n"))
    if match is None:
        raise ValueError(f"no mark: {line!r}")
    code, epoch, pid, phase, when = match.groups()
    return Run(code, int(epoch), int(pid), float(when) if when else None), phase

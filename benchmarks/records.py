"""The jobs' own log: a line of fixed width per start and end of a job, for all processes in one file.

A line is one write to a file that is open for appending, so lines of many processes never mix. Times are of
the monotonic clock, which on Linux is the same for all processes: the bench may subtract its own.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

VARIABLE = "CHP_BENCH_RECORDS"
START, END = "S", "E"
_LINE = "{kind} {number:012d} {moment:020.9f} {pid:010d}\n"
_LENGTH = len(_LINE.format(kind=START, number=0, moment=0.0, pid=0))

# Numbers from here on belong to rows that only stand in the queue.
STANDING = 2_000_000
# Numbers from here on belong to jobs that warm a worker up.
WARMING = 1_000_000


@dataclass(frozen=True)
class Record:
    """One line. `moment` is in seconds of the monotonic clock."""

    kind: str
    number: int
    moment: float
    pid: int


def noop(number: int) -> None:
    """Record the start of a job that does nothing."""
    _write(START, number)


def sleepy(number: int, ms: float) -> None:
    """Record the start, sleep for so many milliseconds, record the end."""
    _write(START, number)
    time.sleep(ms / 1000)
    _write(END, number)


def _write(kind: str, number: int) -> None:
    line = _LINE.format(kind=kind, number=number, moment=time.monotonic(), pid=os.getpid())
    os.write(_descriptor(), line.encode("ascii"))


@cache
def _descriptor() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@dataclass
class RunLog:
    """The reading side. It keeps what it has read and reads only what is new."""

    path: Path
    records: list[Record] = field(default_factory=list)
    _offset: int = 0

    def clear(self) -> None:
        """Forget all, and empty the file. No job may be running."""
        self.path.write_bytes(b"")
        self.records.clear()
        self._offset = 0

    def read(self) -> list[Record]:
        """Read what is new and give all records."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = len(data) - len(data) % _LENGTH
        self.records += [_parsed(line) for line in data[:whole].decode("ascii").splitlines()]
        self._offset += whole
        return self.records

    def starts(self) -> list[Record]:
        """Give the starts of measured jobs, in the order of the file."""
        return [record for record in self.read() if record.kind == START and record.number < WARMING]

    def standing_run(self) -> int:
        """Count the starts of rows that only stand there, before the last start of a measured job."""
        last = max((record.moment for record in self.starts()), default=0.0)
        return sum(record.number >= STANDING and record.moment < last for record in self.records)

    def wait(self, kind: str, count: int, seconds: float, alive: Callable[[], bool]) -> bool:
        """Wait until `count` different jobs have started (or ended); tell whether they have."""
        ends = time.monotonic() + seconds
        while not (done := self._different(kind) >= count) and time.monotonic() < ends and alive():
            time.sleep(0.02)
        return done or self._different(kind) >= count

    def _different(self, kind: str) -> int:
        numbers = {record.number for record in self.read() if record.kind == kind}
        return sum(number < STANDING for number in numbers)


def _parsed(line: str) -> Record:
    kind, number, moment, pid = line.split()
    return Record(kind, int(number), float(moment), int(pid))

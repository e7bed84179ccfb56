"""Real workers: `manage.py hosting_worker`, with its slots, counted and ended."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import process_table
from benchmarks.installation import ROOT


class Workers:
    """The workers of one run. Their processes are known by a mark that they inherit."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self._mark = secrets.token_hex(8)
        self._log = log
        self._environment = {**os.environ, **environment, process_table.VARIABLE: self._mark}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int, slots: int) -> None:
        """Start so many workers of so many slots each."""
        command = [sys.executable, str(ROOT / "manage.py"), "hosting_worker", "--slots", str(slots)]
        for _ in range(workers):
            with self._log.open("ab") as log:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=ROOT,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def are_alive(self) -> bool:
        """Whether any worker still runs."""
        return any(process.poll() is None for process in self._processes)

    def pids(self) -> list[int]:
        """Give the processes of all workers and slots."""
        return process_table.marked(self._mark)

    def cpu_seconds(self) -> float:
        """Give the processor time of all workers and slots, in seconds."""
        return process_table.cpu_seconds(self.pids())

    def kill(self) -> None:
        """End every worker and slot by signal 9, the workers first: they would replace their slots."""
        for process in self._processes:
            process.kill()
        process_table.kill_marked(self._mark)
        self._reap()

    def stop(self, seconds: float = 10.0) -> None:
        """Ask the workers to finish and leave; kill what is still there after so many seconds."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        ends = time.monotonic() + seconds
        while self.pids() and time.monotonic() < ends:
            time.sleep(0.02)
        self.kill()

    def _reap(self) -> None:
        for process in self._processes:
            process.wait()
        self._processes.clear()


@contextmanager
def running(log: Path, environment: Mapping[str, str], workers: int, slots: int) -> Iterator[Workers]:
    """Run workers within a block; whatever happens in it, none is left behind. `log` takes what they say."""
    started = Workers(log, environment)
    try:
        started.start(workers, slots)
        yield started
        started.stop()
    finally:
        started.kill()

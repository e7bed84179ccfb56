"""The test stand: one benchmark's folder, database, log and workers. All of it is gone at the end."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from django.conf import settings

from benchmarks import installation, worker_processes
from benchmarks.database import Database, open_database
from benchmarks.records import VARIABLE, RunLog
from benchmarks.worker_processes import Workers

# What a benchmark needs that the product's defaults do not give. The caller's own variables win.
NEEDED: dict[str, dict[str, str]] = {
    # As the peers are set in the same measure: a beat a second, silence of four is a lost worker.
    "crash": {"CHP_HEARTBEAT_SECONDS": "1", "CHP_STALE_BEATS": "4"},
}
# As the peers run at their best: a line per job is not written.
QUIET = {"CHP_LOG_LEVEL": "WARNING", "MAX_WORKERS": installation.MOST_AT_ONCE}


@dataclass(frozen=True)
class Options:
    """What the command line asks for. `cap` and `idle` are seconds; `rows` are sizes of the backlog."""

    benchmark: str
    database: str
    jobs: int | None = None
    slots: int = 2
    kinds: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    idle: float = 20.0
    cap: float = 300.0
    url: str | None = None
    ordinary: bool = False

    def jobs_or(self, usual: int) -> int:
        """How many jobs, where the benchmark's usual number is this."""
        return usual if self.jobs is None else self.jobs


@dataclass(frozen=True)
class Stand:
    """What a benchmark works with."""

    options: Options
    folder: Path
    database: Database
    log: RunLog

    def fresh(self) -> None:
        """Begin anew with an empty database and an empty log."""
        self.database.fresh()
        self.log.clear()

    def workers(
        self, workers: int, slots: int, more: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Workers]:
        """Run workers within a block, with `more` variables in their environment."""
        environment = {VARIABLE: str(self.log.path), **(more or {})}
        return worker_processes.running(self.folder / "worker.log", environment, workers, slots)

    def common_params(self) -> dict[str, Any]:
        """Give what is true of all figures of this run. `load` is the machine's, over the last minute."""
        return {
            "python": platform.python_version(),
            "django": django.get_version(),
            "database_version": self.database.version(),
            "poll_s": settings.CHP_POLL_SECONDS,
            "beat_s": settings.CHP_HEARTBEAT_SECONDS,
            "ordinary": self.options.ordinary,
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
        }


@contextmanager
def opened(options: Options) -> Iterator[Stand]:
    """Set the stand up, with Django on its settings and database, and take it down at the end."""
    folder = Path(tempfile.mkdtemp(prefix="chp-bench-"))
    try:
        database = open_database(options.database, options.url, folder)
        try:
            _set_up_django(options, folder, database)
            yield Stand(options, folder, database, RunLog(folder / "records"))
        finally:
            database.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _set_up_django(options: Options, folder: Path, database: Database) -> None:
    installation.make_keys(folder)
    os.environ.update(installation.environment(folder, database.url))
    for name, value in {**QUIET, **NEEDED.get(options.benchmark, {})}.items():
        os.environ.setdefault(name, value)
    if options.ordinary:
        os.environ[installation.ORDINARY] = "1"
    django.setup()

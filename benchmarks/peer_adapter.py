"""CHP in the peers' harness: `bench.py --adapter benchmarks/peer_adapter.py --peer chp`.

The harness measures; this says how the product is set up, asked and started. It is run by the product's own
interpreter. Names and signatures are the harness's.
"""

import os
import secrets
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pb.base import DjangoAdapter  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import installation, process_table  # noqa: E402 - found by the line above

KINDS = {"future": "scheduled", "lowprio": "lowprio", "finished": "finished", "blocked": "blocked"}
# What the documentation offers for the least delay, and no line per job, as the peers have it.
BEST = {
    "CHP_LOG_LEVEL": "WARNING",
    "MAX_WORKERS": installation.MOST_AT_ONCE,
}
# Measure E: a beat a second, silence of four is a lost worker, as the peers that have beats are set.
RECOVERY = {"CHP_HEARTBEAT_SECONDS": "1", "CHP_STALE_BEATS": "4"}


class Chp(DjangoAdapter):
    """The product with the benchmarks' settings and operations."""

    peer = dist = "chp"
    venv = ""
    settings = "benchmarks.settings"
    backends = ("postgres", "sqlite")
    services = {"postgres": ("postgres",)}  # noqa: RUF012 - the harness declares it so
    default_concurrency = 2
    best_concurrency = {"postgres": 2, "sqlite": 2}  # noqa: RUF012
    crash_caps = {"default": 15}  # noqa: RUF012 - 150 s of silence make a lost worker there
    one_tx_api = True
    backlog_kinds = ("future", "lowprio")
    notes = {  # noqa: RUF012
        "default": "2 slots, poll 2 s, a log line per job",
        "best": "log level WARNING, MAX_WORKERS 64; E: beat 1 s, lost after 4 s; the no-op "
        "is brief work; option ordinary=1: it is not",
    }
    _recovery = False

    def setup(self) -> None:
        """Make an empty migrated database and the rows that jobs refer to."""
        if not self.conf:
            installation.make_keys(self.workdir)
            self.mark = secrets.token_hex(8)
            os.environ.update(self._environment())
        super().setup()
        # Only now: the models need Django set up.
        self.jobs = import_module("benchmarks.queued_jobs")
        self.rows = import_module("benchmarks.standing_rows")
        self.tenancy = self.jobs.make_tenancy()

    def enqueue(self, n: int, start: int = 0, ms: float | None = None) -> None:
        """Submit jobs one by one, each in its own transaction."""
        self.jobs.submit_one_by_one(self.tenancy, n, start, ms)

    def one_tx_enqueue(self, n: int, start: int = 0, ms: float | None = None) -> None:
        """Submit jobs in one transaction."""
        self.jobs.submit_together(self.tenancy, n, start, ms)

    def worker_commands(self, processes: int, concurrency: int | None) -> list[list[str]]:
        """Give the command of each worker: the product's own."""
        slots = ["--slots", str(concurrency)] if concurrency else []
        return [[sys.executable, str(ROOT / "manage.py"), "hosting_worker", *slots] for _ in range(processes)]

    def worker_env(self) -> dict[str, str]:
        """Add the product's folder, and the mark by which slots are found: each has a session of its own."""
        env: dict[str, str] = super().worker_env()
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env["PYTHONPATH"]])
        env[process_table.VARIABLE] = self.mark
        return env

    def store_counts(self) -> dict[str, int]:
        """Give how many jobs wait and how many are held, as the store sees them."""
        pending = self.jobs.count_unfinished()
        running = self.jobs.Job.objects.filter(status__in=("RUNNING", "CANCEL_REQUESTED")).count()
        return {"pending": pending - running, "running": running}

    def backlog(self, kind: str, n: int) -> None:
        """Insert rows; statistics are the harness's business."""
        self.rows.insert(self.tenancy, KINDS[kind], n)

    def enable_recovery(self) -> None:
        """Let a lost worker be noticed soon."""
        self._recovery = True

    def stop_workers(self, grace: float = 6.0) -> None:
        """Stop workers, and slots that are still there."""
        super().stop_workers(grace)
        if self.conf:
            process_table.kill_marked(self.mark)

    def kill_workers(self) -> int:
        """Kill workers and slots at once; give the moment in nanoseconds."""
        moment = time.monotonic_ns()
        super().kill_workers()
        process_table.kill_marked(self.mark)
        return moment

    def worker_cpu(self) -> float:
        """Give the processor time of workers and slots, in seconds."""
        return process_table.cpu_seconds(process_table.marked(self.mark))

    def worker_pss_mb(self) -> float:
        """Give the memory of workers and slots, in MiB."""
        return process_table.memory_mib(process_table.marked(self.mark))

    def _environment(self) -> dict[str, str]:
        chosen = dict(BEST) if self.profile == "best" else {}
        if self._recovery:
            chosen |= RECOVERY
        if self.options.get("ordinary"):
            chosen[installation.ORDINARY] = "1"
        return installation.environment(self.workdir, self._url()) | chosen

    def _url(self) -> str:
        if self.backend == "sqlite":
            return f"sqlite:///{self.workdir / 'db.sqlite3'}"
        server: Any = self.servers["postgres"]
        return f"postgres://{server.user}@{quote(str(server.socket), safe='')}:{server.port}/{self.db}"


ADAPTERS = [Chp]

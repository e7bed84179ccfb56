"""`python -m benchmarks.peers`: ours and the peers in turn through their harness, one JSON line per ratio.

All runs of a measure follow each other within a pass: whatever else goes on on the machine for a while
touches all alike.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.installation import ROOT
from benchmarks.peer_ratios import DATABASES, KINDS, OURS, RIVALS, STANDING, Results, comparisons
from benchmarks.private_postgresql import programs

LIMIT_SECONDS = 1200.0


@dataclass(frozen=True)
class Run:
    """One call of the harness: whom, on which database, which measure, and further arguments."""

    peer: str
    backend: str
    measure: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Harness:
    """The peers' harness. `home` holds its data and environments, `port` names its server's socket."""

    folder: Path
    home: Path
    port: int
    more: tuple[str, ...] = ()

    def measure(self, run: Run) -> Iterator[dict[str, Any]]:
        """Make a run and give its lines."""
        command = [
            *(sys.executable, "-B", str(self.folder / "bench.py")),
            *("--adapter", str(ROOT / "benchmarks" / "peer_adapter.py")),
            *("--peer", run.peer, "--backend", run.backend, "--measure", run.measure, "--profile", "best"),
            *(*run.more, *self.more),
        ]
        with subprocess.Popen(command, env=self._environment(), stdout=subprocess.PIPE) as process:
            try:
                told, _ = process.communicate(timeout=LIMIT_SECONDS)
            except BaseException:
                # It stops its workers before it leaves, and tells so.
                process.terminate()
                process.communicate()
                raise
        for line in told.decode().splitlines():
            yield json.loads(line)

    def stop_server(self) -> None:
        """Stop the PostgreSQL that the harness has started."""
        command = [sys.executable, "-B", "-m", "pb.services", "down", "postgres"]
        subprocess.run(
            command, cwd=self.folder, env=self._environment(), stdout=subprocess.DEVNULL, check=False
        )

    def _environment(self) -> dict[str, str]:
        return {
            "PB_PG_BIN": str(programs()),
            **os.environ,
            "PB_HOME": str(self.home),
            "PB_PG_PORT": str(self.port),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def main(arguments: list[str] | None = None) -> int:
    """Make all passes, print the ratios, and give 1 where a run failed."""
    parsed, more = _parser().parse_known_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    harness = Harness(parsed.harness.resolve(), parsed.home.resolve(), _free_port(), tuple(more))
    measures = parsed.measures.split(",")
    results = Results()
    try:
        for number in range(parsed.passes):
            for run in _runs(measures):
                print(f"pass {number + 1}: {run}", file=sys.stderr, flush=True)
                for line in harness.measure(run):
                    results.take(line)
                    _keep(parsed.lines, line)
    finally:
        harness.stop_server()
    for comparison in comparisons(measures):
        print(results.line(comparison), flush=True)
    for failure in results.failed:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if results.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        epilog="Further options (--n 2000, --cap 60) go to every call of the harness.",
    )
    parser.add_argument("--harness", type=Path, required=True, help="the folder of bench.py")
    parser.add_argument("--home", type=Path, required=True, help="its data and the peers' environments")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--measures", default="B,C,D", help="of the harness, with commas between them")
    parser.add_argument("--lines", type=Path, help="append every line of the harness to this file")
    return parser


def _free_port() -> int:
    """Give a number for the server's socket that nobody uses: the harness listens on no address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _keep(path: Path | None, line: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)


def _runs(measures: list[str]) -> Iterator[Run]:
    """Give the runs of one pass."""
    everybody = [*((OURS, backend) for backend in DATABASES), *RIVALS]
    for measure in measures:
        for peer, backend in everybody:
            if measure != "D":
                yield Run(peer, backend, measure)
                continue
            for kind in KINDS:
                yield Run(peer, backend, measure, ("--kind", kind, "--backlog", f"0,{STANDING}"))


if __name__ == "__main__":
    sys.exit(main())

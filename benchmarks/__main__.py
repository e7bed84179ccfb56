"""`python -m benchmarks NAME --database sqlite|postgresql`: run one benchmark, one JSON line per figure."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TextIO

from benchmarks import stand
from benchmarks.stand import Options

NAMES = ("enqueue", "drain", "latency", "backlog", "idle", "crash")
KINDS = ("finished", "lowprio", "scheduled", "blocked")


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names and give the exit code."""
    parsed = _parser().parse_args(arguments)
    # So that a benchmark that is stopped takes its workers and its server with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = Options(
        benchmark=parsed.name,
        database=parsed.database,
        jobs=parsed.jobs,
        slots=parsed.slots,
        kinds=tuple(parsed.kind),
        rows=tuple(parsed.rows),
        idle=parsed.seconds,
        cap=parsed.cap,
        url=parsed.url,
        ordinary=parsed.ordinary,
    )
    with _outputs(parsed.out) as outputs:
        _run(options, outputs)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--jobs", type=int, help="how many jobs, instead of the benchmark's usual number")
    parser.add_argument("--slots", type=int, default=2, help="of the worker; drain has its own (default 2)")
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=[], help="backlog: which rows (all)")
    parser.add_argument("--rows", type=int, nargs="+", default=[], help="backlog: how many rows")
    parser.add_argument("--seconds", type=float, default=20.0, help="idle: how long to watch (default 20)")
    parser.add_argument("--cap", type=float, default=300.0, help="longest wait for jobs, in seconds")
    parser.add_argument("--ordinary", action="store_true", help="hand the no-op out one at a time")
    parser.add_argument("--url", help="a running PostgreSQL whose user may make databases")
    parser.add_argument("--out", type=Path, help="append the lines to this file too")
    return parser


@contextlib.contextmanager
def _outputs(extra: Path | None) -> Iterator[list[TextIO]]:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(extra.open("a", encoding="utf-8"))] if extra else []
        yield [sys.stdout, *files]


def _run(options: Options, outputs: list[TextIO]) -> None:
    with stand.opened(options) as opened:
        # Only now: a benchmark's module imports the models, which need Django set up.
        benchmark = import_module(f"benchmarks.{options.benchmark}")
        for figure in benchmark.measure(opened):
            line = figure.line(options.benchmark, options.database, opened.common_params())
            for output in outputs:
                print(line, file=output, flush=True)


if __name__ == "__main__":
    sys.exit(main())
